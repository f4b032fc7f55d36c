/* SPDX-License-Identifier: Apache-2.0 */
/* Memory within one iteration, from the live ranges of its graph. */
#include "config.h"

#include "src/report.h"
#include "src/report_model.h"
#include "src/report_timeline.h"

#include <stdlib.h>
#include <string.h>

enum { FEW = 96 };

/* --- where buffers begin and end ----------------------------------------- */

void
dcp_ends_fill(const struct dcp_graph *ir, struct dcp_ends *ends)
{
    size_t n = ir->buffer_count;

    ends->alloc = dcp_xcalloc(2 * n, sizeof *ends->alloc);
    ends->free = ends->alloc + n;
    memset(ends->alloc, 0xff, 2 * n * sizeof *ends->alloc);
    for (uint32_t i = 0; i < ir->node_count; i++) {
        const struct dcp_ir_node *node = &ir->nodes[i];
        if (!(dcp_op_properties(node->op) & DCP_IS_MEMORY) ||
            node->memory.buffer >= n)
            continue;
        uint32_t *end = node->op == DCP_OP_ALLOC ? ends->alloc : ends->free;
        if (end[node->memory.buffer] == DCP_NONE)
            end[node->memory.buffer] = i;
    }
}

void
dcp_ends_release(struct dcp_ends *ends)
{
    free(ends->alloc);
    ends->alloc = ends->free = NULL;
}

bool
dcp_ends_live(const struct dcp_ends *ends, uint32_t buffer, uint32_t node)
{
    uint32_t alloc = ends->alloc[buffer], end = ends->free[buffer];

    if (alloc == DCP_NONE)
        return end != DCP_NONE && node <= end;
    if (end == DCP_NONE || alloc <= end)
        return node >= alloc && node <= end; /* DCP_NONE is the largest */
    return node <= end || node >= alloc;
}

/* --- the curve ----------------------------------------------------------- */

/* Adds the buffer to, or takes it from, a level. */
static void
change(struct dcp_level *level, const struct dcp_ir_buffer *buffer, bool add)
{
    uint64_t bytes = add ? buffer->bytes : 0 - buffer->bytes;

    level->role[buffer->role < DCP_ROLE_COUNT ? buffer->role : 0] += bytes;
    level->total += bytes;
}

static void
add_point(struct dcp_curve *curve, uint32_t node, double at,
          const struct dcp_level *level)
{
    struct dcp_curve_point *last =
        curve->count ? &curve->points[curve->count - 1] : NULL;

    if (last && last->node == node) {
        last->level = *level;
        return;
    }
    curve->points[curve->count++] =
        (struct dcp_curve_point){node, at, *level};
}

/* The part of the iteration's time that has gone when node i begins. */
static double
part_before(const struct dcp_model_graph *graph, uint32_t i, uint64_t *spent)
{
    double part = graph->gpu_total
                      ? (double)*spent / (double)graph->gpu_total
                      : (double)i / (double)graph->ir->node_count;

    *spent += graph->gpu_ns[i];
    return part;
}

static void
fill_points(const struct dcp_model_graph *graph, struct dcp_curve *curve)
{
    const struct dcp_graph *ir = graph->ir;
    struct dcp_level level = {0};
    struct dcp_ends ends;
    uint64_t spent = 0;

    dcp_ends_fill(ir, &ends);
    for (uint32_t b = 0; b < ir->buffer_count; b++)
        if (!ir->buffers[b].persistent && dcp_ends_live(&ends, b, 0))
            change(&level, &ir->buffers[b], true);
    add_point(curve, 0, 0, &level);
    for (uint32_t i = 0; i < ir->node_count; i++) {
        double at = part_before(graph, i, &spent);
        uint32_t b = ir->nodes[i].memory.buffer;
        if (!(dcp_op_properties(ir->nodes[i].op) & DCP_IS_MEMORY) ||
            b >= ir->buffer_count || ir->buffers[b].persistent)
            continue;
        if (ends.alloc[b] == i && i > 0)
            change(&level, &ir->buffers[b], true);
        else if (ends.free[b] == i)
            change(&level, &ir->buffers[b], false);
        else
            continue;
        add_point(curve, i, at, &level);
    }
    dcp_ends_release(&ends);
}

/* Of every stretch of time the highest point, and the last of all. */
static void
choose_few(struct dcp_curve *curve)
{
    curve->few = dcp_xcalloc(FEW + 2, sizeof *curve->few);
    long stretch = -1;

    for (size_t i = 0; i < curve->count; i++) {
        const struct dcp_curve_point *point = &curve->points[i];
        long here = (long)(point->at * FEW);
        if (here != stretch) {
            curve->few[curve->few_count++] = i;
            stretch = here;
            continue;
        }
        size_t *kept = &curve->few[curve->few_count - 1];
        if (point->level.total > curve->points[*kept].level.total)
            *kept = i;
    }
    if (curve->few[curve->few_count - 1] != curve->count - 1)
        curve->few[curve->few_count++] = curve->count - 1;
}

void
dcp_curve_fill(const struct dcp_model_graph *graph, struct dcp_curve *curve)
{
    memset(curve, 0, sizeof *curve);
    if (!graph->ir || graph->ir->node_count == 0)
        return;
    curve->points =
        dcp_xcalloc((size_t)graph->ir->node_count + 1, sizeof *curve->points);
    curve->timed = graph->gpu_total > 0;
    fill_points(graph, curve);
    for (size_t i = 0; i < curve->count; i++)
        if (curve->points[i].level.total >
            curve->points[curve->peak].level.total)
            curve->peak = i;
    choose_few(curve);
}

void
dcp_curve_release(struct dcp_curve *curve)
{
    free(curve->points);
    free(curve->few);
    memset(curve, 0, sizeof *curve);
}
