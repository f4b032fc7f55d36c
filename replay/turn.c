/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "replay/turn.h"

#include "src/alloc.h"

#include <stdlib.h>
#include <string.h>

/* --- where to cut ------------------------------------------------------------- */

/* Adds `bytes` to the score of every cut in [first, last]. */
static void
score_range(int64_t *delta, uint32_t first, uint32_t last, int64_t bytes)
{
    delta[first] += bytes;
    delta[last + 1] -= bytes;
}

static bool
waits(const struct dcp_graph *graph)
{
    for (uint32_t n = 0; n < graph->node_count; n++)
        if (graph->nodes[n].op == DCP_OP_WAIT)
            return true;
    return false;
}

/* A block that is born and dies in the order as recorded is lost by a cut
 * inside its life; a wrapped one is won by a cut outside it. */
static void
score_fill(const struct dcp_graph *graph, const struct dcp_wrap *wraps,
           uint32_t count, uint32_t *born, int64_t *delta)
{
    memset(born, 0xff, graph->buffer_count * sizeof *born);
    for (uint32_t n = 0; n < graph->node_count; n++) {
        const struct dcp_ir_node *node = &graph->nodes[n];
        if (node->op != DCP_OP_ALLOC && node->op != DCP_OP_FREE)
            continue;
        uint32_t b = node->memory.buffer;
        if (b >= graph->buffer_count)
            continue;
        if (node->op == DCP_OP_ALLOC)
            born[b] = n;
        else if (born[b] != UINT32_MAX)
            score_range(delta, born[b] + 1, n,
                        -(int64_t)graph->buffers[b].bytes);
    }
    for (uint32_t w = 0; w < count; w++) {
        uint32_t b = graph->nodes[wraps[w].alloc].memory.buffer;
        score_range(delta, wraps[w].free + 1, wraps[w].alloc,
                    (int64_t)graph->buffers[b].bytes);
    }
}

uint32_t
dcp_turn_origin(const struct dcp_graph *graph, const struct dcp_wrap *wraps,
                uint32_t count)
{
    uint32_t best = 0;
    int64_t score = 0, most = 0;

    if (count == 0 || waits(graph))
        return 0;
    uint32_t *born = dcp_malloc((graph->buffer_count + 1) * sizeof *born);
    int64_t *delta = dcp_calloc(graph->node_count + 2, sizeof *delta);
    if (born && delta) {
        score_fill(graph, wraps, count, born, delta);
        for (uint32_t n = 0; n < graph->node_count; n++) {
            score += delta[n];
            if (score > most) {
                most = score;
                best = n;
            }
        }
    }
    free(born);
    free(delta);
    return best;
}

/* --- the turned graph ------------------------------------------------------------ */

/* Where buffers of the old order go: in the first part (from the cut on) each
 * keeps its number; in the second, wrapped and cut ones have another. */
struct turn {
    const struct dcp_graph *from;
    struct dcp_graph *to;
    uint32_t *second; /* by buffer */
    uint32_t origin;
};

static bool
copy_tables(const struct turn *turn)
{
    const struct dcp_graph *from = turn->from;
    struct dcp_graph *to = turn->to;

    to->key = from->key;
    to->rank = from->rank;
    to->world = from->world;
    to->micro_count = from->micro_count;
    for (uint32_t b = 0; b < from->buffer_count; b++) {
        const struct dcp_ir_buffer *x = &from->buffers[b];
        if (dcp_ir_add_buffer(to, x->role, x->bytes, x->persistent, x->label) ==
            DCP_NONE)
            return false;
    }
    for (uint32_t k = 0; k < from->kernel_count; k++) {
        const struct dcp_ir_kernel *x = &from->kernels[k];
        if (dcp_ir_add_kernel(to, x->name, x->known, x->params,
                              x->param_count) == DCP_NONE)
            return false;
    }
    for (uint32_t i = 0; i < from->stream_count; i++)
        if (dcp_ir_add_stream(to) == DCP_NONE)
            return false;
    for (uint32_t i = 0; i < from->event_count; i++)
        if (dcp_ir_add_event(to) == DCP_NONE)
            return false;
    return true;
}

/* A buffer allocated before the cut and alive at it was, in the first part,
 * there from the start; what the second part allocates is another. */
static bool
split_cut(struct turn *turn)
{
    const struct dcp_graph *from = turn->from;

    for (uint32_t n = 0; n < turn->origin; n++) {
        const struct dcp_ir_node *node = &from->nodes[n];
        uint32_t b = node->memory.buffer;

        if (node->op == DCP_OP_ALLOC && b < from->buffer_count)
            turn->second[b] = n; /* for now: where it was born */
    }
    for (uint32_t n = 0; n < turn->origin; n++) {
        const struct dcp_ir_node *node = &from->nodes[n];
        if (node->op == DCP_OP_FREE && node->memory.buffer < from->buffer_count)
            turn->second[node->memory.buffer] = DCP_NONE; /* not cut */
    }
    for (uint32_t b = 0; b < from->buffer_count; b++) {
        if (turn->second[b] == DCP_NONE) {
            turn->second[b] = b;
            continue;
        }
        const struct dcp_ir_buffer *x = &from->buffers[b];
        turn->second[b] =
            dcp_ir_add_buffer(turn->to, x->role, x->bytes, false, x->label);
        if (turn->second[b] == DCP_NONE)
            return false;
    }
    return true;
}

/* A buffer that the iteration before left and that is freed after the cut was,
 * before the cut, another one: the next iteration's. */
static bool
split_old(struct turn *turn)
{
    const struct dcp_graph *from = turn->from;
    bool *born = dcp_calloc(from->buffer_count + 1, sizeof *born);
    bool good = born != NULL;

    for (uint32_t n = 0; good && n < from->node_count; n++) {
        const struct dcp_ir_node *node = &from->nodes[n];
        uint32_t b = node->memory.buffer;

        if (b >= from->buffer_count)
            continue;
        if (node->op == DCP_OP_ALLOC)
            born[b] = true;
        if (node->op != DCP_OP_FREE || born[b] || n < turn->origin ||
            turn->second[b] != b)
            continue;
        const struct dcp_ir_buffer *x = &from->buffers[b];
        turn->second[b] =
            dcp_ir_add_buffer(turn->to, x->role, x->bytes, false, x->label);
        good = turn->second[b] != DCP_NONE;
    }
    free(born);
    return good;
}

static bool
node_copy(const struct turn *turn, uint32_t n)
{
    const struct dcp_ir_node *x = &turn->from->nodes[n];
    bool second = n < turn->origin;
    struct dcp_ir_node *node = dcp_ir_add_node(turn->to, x->op, x->stream);

    if (!node)
        return false;
    struct dcp_ir_node bare = *x;
    bare.call = (n + turn->from->node_count - turn->origin) %
                turn->from->node_count;
    bare.refs = NULL;
    bare.after = NULL;
    bare.ref_count = bare.after_count = 0;
    *node = bare;
    if ((x->op == DCP_OP_ALLOC || x->op == DCP_OP_FREE) && second &&
        x->memory.buffer != DCP_NONE)
        node->memory.buffer = turn->second[x->memory.buffer];
    if (x->ref_count == 0)
        return true;
    struct dcp_ir_ref *refs = dcp_ir_add_refs(turn->to, node, x->ref_count);
    if (!refs)
        return false;
    memcpy(refs, x->refs, x->ref_count * sizeof *refs);
    for (uint32_t i = 0; second && i < x->ref_count; i++)
        refs[i].buffer = turn->second[refs[i].buffer];
    return true;
}

struct dcp_graph *
dcp_turn(const struct dcp_graph *graph, uint32_t origin,
         const struct dcp_wrap *wraps, uint32_t count)
{
    struct turn turn = {graph, dcp_graph_create(), NULL, origin};
    uint32_t n = graph->node_count;

    turn.second = dcp_malloc((graph->buffer_count + 1) * sizeof *turn.second);
    bool good = turn.to && turn.second && copy_tables(&turn);
    if (good) {
        memset(turn.second, 0xff, graph->buffer_count * sizeof *turn.second);
        good = split_cut(&turn);
    }
    /* What lived on into the iteration is what it made. */
    for (uint32_t w = 0; good && w < count; w++) {
        uint32_t old = graph->nodes[wraps[w].free].memory.buffer;
        turn.second[old] = graph->nodes[wraps[w].alloc].memory.buffer;
        if (wraps[w].free < origin)
            turn.to->buffers[old].bytes = 0; /* not met any more */
    }
    good = good && split_old(&turn);
    for (uint32_t i = 0; good && i < n; i++)
        good = node_copy(&turn, (origin + i) % n);
    free(turn.second);
    if (good)
        return turn.to;
    dcp_graph_destroy(turn.to);
    return NULL;
}
