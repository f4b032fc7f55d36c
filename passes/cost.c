/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "passes/cost.h"

#include <string.h>

/* --- curves --------------------------------------------------------------- */

enum dcp_status
dcp_curve_add(struct dcp_curve *curve, uint64_t bytes, uint64_t ns)
{
    uint32_t i = 0;

    while (i < curve->count && curve->points[i].bytes < bytes)
        i++;
    if (i == curve->count || curve->points[i].bytes != bytes) {
        if (curve->count == DCP_CURVE_POINTS)
            return DCP_RANGE;
        memmove(&curve->points[i + 1], &curve->points[i],
                (curve->count - i) * sizeof *curve->points);
        curve->count++;
    }
    curve->points[i].bytes = bytes;
    curve->points[i].ns = ns;
    for (uint32_t j = 0; j < i; j++)
        if (curve->points[j].ns > ns)
            curve->points[j].ns = ns;
    for (uint32_t j = i + 1; j < curve->count; j++)
        if (curve->points[j].ns < ns)
            curve->points[j].ns = ns;
    return DCP_OK;
}

/* a + steps * rise / run, held below the end of 64 bits. */
static uint64_t
along(uint64_t a, uint64_t steps, uint64_t rise, uint64_t run)
{
    unsigned __int128 more = (unsigned __int128)steps * rise / run;

    return more > UINT64_MAX - a ? UINT64_MAX : a + (uint64_t)more;
}

uint64_t
dcp_curve_at(const struct dcp_curve *curve, uint64_t bytes)
{
    uint32_t i = 0, n = curve->count;

    if (!n || !bytes)
        return 0;
    while (i < n && curve->points[i].bytes < bytes)
        i++;
    if (i < n && (i == 0 || curve->points[i].bytes == bytes))
        return curve->points[i].ns;
    if (n == 1)
        return curve->points[0].bytes
                   ? along(0, bytes, curve->points[0].ns,
                           curve->points[0].bytes)
                   : curve->points[0].ns;
    if (i == n)
        i--;
    return along(curve->points[i - 1].ns, bytes - curve->points[i - 1].bytes,
                 curve->points[i].ns - curve->points[i - 1].ns,
                 curve->points[i].bytes - curve->points[i - 1].bytes);
}

/* --- typical figures ------------------------------------------------------ */

/* A latency, then a rate in bytes a microsecond (MB/s). */
static void
set_curve(struct dcp_curve *curve, uint64_t latency_ns, uint64_t rate)
{
    const uint64_t large = (uint64_t)1 << 30;

    curve->count = 0;
    dcp_curve_add(curve, 1, latency_ns);
    dcp_curve_add(curve, large, latency_ns + large * 1000 / rate);
}

void
dcp_cost_default(struct dcp_cost *cost, uint32_t world)
{
    /* of what a ring moves, each rank sends (N - 1) / N */
    uint64_t ring = world > 1 ? 361000 * (uint64_t)world / (world - 1)
                              : 2000000;
    uint64_t start = world > 1 ? 8400 + 3400 * (uint64_t)(world - 1) : 1000;

    memset(cost, 0, sizeof *cost);
    cost->kernel_ns = 4500;
    cost->node_ns = 800;
    cost->issue_ns = 300;
    set_curve(&cost->curves[DCP_CURVE_UPLOAD], 2000, 55000);
    set_curve(&cost->curves[DCP_CURVE_DOWNLOAD], 2000, 55000);
    set_curve(&cost->curves[DCP_CURVE_COPY], 1500, 2000000);
    set_curve(&cost->curves[DCP_CURVE_FILL], 1500, 3500000);
    set_curve(&cost->curves[DCP_CURVE_GATHER], start, ring);
    set_curve(&cost->curves[DCP_CURVE_SCATTER], start, ring);
    set_curve(&cost->curves[DCP_CURVE_REDUCE], 2 * start, ring / 2);
    set_curve(&cost->curves[DCP_CURVE_BCAST], start, ring);
}

/* --- nodes ---------------------------------------------------------------- */

static uint64_t
sum(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

uint64_t
dcp_cost_bytes(const struct dcp_graph *graph, const struct dcp_ir_node *node)
{
    uint64_t bytes = 0;

    for (uint32_t r = 0; r < node->ref_count; r++) {
        const struct dcp_ir_ref *ref = &node->refs[r];
        uint64_t whole;

        if (ref->buffer >= graph->buffer_count)
            continue;
        whole = graph->buffers[ref->buffer].bytes;
        if (node->move.bytes)
            bytes = sum(bytes, node->move.bytes);
        else if (ref->offset < whole)
            bytes = sum(bytes, whole - ref->offset);
    }
    return bytes;
}

static uint64_t
copy_ns(const struct dcp_cost *cost, const struct dcp_ir_node *node)
{
    enum dcp_curve_kind kind = node->copy.from != DCP_IR_DEVICE
                                   ? DCP_CURVE_UPLOAD
                               : node->copy.to != DCP_IR_DEVICE
                                   ? DCP_CURVE_DOWNLOAD
                                   : DCP_CURVE_COPY;

    return dcp_curve_at(&cost->curves[kind], node->copy.bytes);
}

static uint64_t
fill_ns(const struct dcp_cost *cost, const struct dcp_ir_node *node)
{
    uint64_t bytes;

    if (__builtin_mul_overflow(node->fill.width, node->fill.height, &bytes) ||
        __builtin_mul_overflow(bytes, node->fill.element, &bytes))
        bytes = UINT64_MAX;
    return dcp_curve_at(&cost->curves[DCP_CURVE_FILL], bytes);
}

static uint64_t
move_ns(const struct dcp_cost *cost, const struct dcp_graph *graph,
        const struct dcp_ir_node *node)
{
    enum dcp_curve_kind kind = DCP_CURVE_REDUCE; /* also of a combine */

    if (node->op == DCP_OP_GATHER)
        kind = DCP_CURVE_GATHER;
    else if (node->op == DCP_OP_SCATTER)
        kind = DCP_CURVE_SCATTER;
    else if (node->op == DCP_OP_BCAST)
        kind = DCP_CURVE_BCAST;
    else if (node->op == DCP_OP_FETCH)
        kind = DCP_CURVE_UPLOAD;
    else if (node->op == DCP_OP_EVICT)
        kind = DCP_CURVE_DOWNLOAD;
    return dcp_curve_at(&cost->curves[kind], dcp_cost_bytes(graph, node));
}

uint64_t
dcp_cost_node(const struct dcp_cost *cost, const struct dcp_graph *graph,
              const struct dcp_ir_node *node)
{
    unsigned properties = dcp_op_properties(node->op);

    if (!(properties & DCP_IS_WORK))
        return 0;
    if (node->gpu_ns)
        return node->gpu_ns;
    if (properties & DCP_IS_OURS)
        return move_ns(cost, graph, node);
    if (node->op == DCP_OP_COPY)
        return copy_ns(cost, node);
    if (node->op == DCP_OP_FILL)
        return fill_ns(cost, node);
    return cost->kernel_ns;
}
