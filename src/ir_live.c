/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "src/ir_live.h"

static uint32_t *
numbers(struct dcp_arena *arena, uint32_t count)
{
    uint32_t *list = dcp_arena_alloc(arena, (size_t)count * sizeof *list);

    for (uint32_t i = 0; list && i < count; i++)
        list[i] = DCP_NONE;
    return list;
}

static bool
make_room(const struct dcp_graph *graph, struct dcp_arena *arena,
          struct dcp_live *out)
{
    uint32_t n = graph->buffer_count;

    out->born = numbers(arena, n);
    out->dead = numbers(arena, n);
    out->alloc = numbers(arena, n);
    out->free = numbers(arena, n);
    out->first = numbers(arena, n);
    out->last = numbers(arena, n);
    out->bytes = dcp_arena_alloc(arena, ((size_t)graph->node_count + 1) *
                                            sizeof *out->bytes);
    return out->born && out->dead && out->alloc && out->free && out->first &&
           out->last && out->bytes;
}

static void
see_node(const struct dcp_graph *graph, uint32_t i, struct dcp_live *out)
{
    const struct dcp_ir_node *node = &graph->nodes[i];

    for (uint32_t r = 0; r < node->ref_count; r++) {
        uint32_t b = node->refs[r].buffer;

        if (b >= graph->buffer_count)
            continue;
        if (out->first[b] == DCP_NONE)
            out->first[b] = i;
        out->last[b] = i;
    }
    if (!(dcp_op_properties(node->op) & DCP_IS_MEMORY) ||
        node->memory.buffer >= graph->buffer_count)
        return;
    uint32_t b = node->memory.buffer;
    if (node->op == DCP_OP_FREE && out->free[b] == DCP_NONE)
        out->free[b] = i;
    if (node->op == DCP_OP_ALLOC && out->alloc[b] == DCP_NONE) {
        out->alloc[b] = i;
        out->free[b] = DCP_NONE; /* one before it was none */
    }
}

static uint64_t
sum(uint64_t a, uint64_t b)
{
    return a + b < a ? UINT64_MAX : a + b;
}

/* Walks time once: what is born is added, what died in the node before is
 * taken away. A saturated sum stays so, as it cannot be undone. */
static void
add_up(const struct dcp_graph *graph, struct dcp_live *out)
{
    uint64_t now = 0;

    for (uint32_t b = 0; b < graph->buffer_count; b++)
        if (out->alloc[b] == DCP_NONE)
            now = sum(now, graph->buffers[b].bytes);
    out->peak = graph->node_count ? 0 : now;
    for (uint32_t i = 0; i < graph->node_count; i++) {
        const struct dcp_ir_node *node = &graph->nodes[i];
        bool memory = dcp_op_properties(node->op) & DCP_IS_MEMORY;
        uint32_t b = memory ? node->memory.buffer : DCP_NONE;

        if (b < graph->buffer_count && out->alloc[b] == i)
            now = sum(now, graph->buffers[b].bytes);
        out->bytes[i] = now;
        if (now > out->peak || out->peak_node == DCP_NONE) {
            out->peak = now;
            out->peak_node = i;
        }
        if (b < graph->buffer_count && out->free[b] == i && now != UINT64_MAX)
            now -= graph->buffers[b].bytes;
    }
}

enum dcp_status
dcp_live_fill(const struct dcp_graph *graph, struct dcp_arena *arena,
              struct dcp_live *out)
{
    uint32_t end = graph->node_count ? graph->node_count - 1 : 0;

    out->peak = 0;
    out->peak_node = DCP_NONE;
    if (!make_room(graph, arena, out))
        return DCP_NOMEM;
    for (uint32_t i = 0; i < graph->node_count; i++)
        see_node(graph, i, out);
    for (uint32_t b = 0; b < graph->buffer_count; b++) {
        out->born[b] = out->alloc[b] == DCP_NONE ? 0 : out->alloc[b];
        out->dead[b] = out->free[b] == DCP_NONE ? end : out->free[b];
    }
    add_up(graph, out);
    return DCP_OK;
}

uint64_t
dcp_live_peak(const struct dcp_graph *graph)
{
    struct dcp_arena arena = { 0 };
    struct dcp_live live;
    uint64_t peak = 0;

    if (dcp_live_fill(graph, &arena, &live) == DCP_OK)
        peak = live.peak;
    dcp_arena_release(&arena);
    return peak;
}
