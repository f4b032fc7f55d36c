/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "capture/slot.h"

#include <stdlib.h>

struct kernel_count {
    uint32_t launches;
    bool known; /* something of its accesses is */
};

static uint64_t
slot_key(const struct dcp_ir_node *node, const struct dcp_ir_ref *ref)
{
    return (uint64_t)node->launch.kernel << 32 | ref->slot;
}

static int
by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

static uint32_t
count_refs(const struct dcp_graph *graph, struct kernel_count *kernels)
{
    uint32_t count = 0;

    for (uint32_t n = 0; n < graph->node_count; n++) {
        const struct dcp_ir_node *node = &graph->nodes[n];

        if (node->op != DCP_OP_LAUNCH)
            continue;
        kernels[node->launch.kernel].launches++;
        for (uint32_t r = 0; r < node->ref_count; r++) {
            bool assumed = node->refs[r].access & DCP_ASSUMED;
            kernels[node->launch.kernel].known |= !assumed;
            count += assumed;
        }
    }
    return count;
}

enum dcp_status
dcp_doubt_find(const struct dcp_graph *graph, struct dcp_arena *arena,
               struct dcp_doubt *out)
{
    struct kernel_count *kernels =
        dcp_arena_alloc(arena, (graph->kernel_count + 1) * sizeof *kernels);
    uint32_t count = 0, kept = 0;

    *out = (struct dcp_doubt){NULL, 0};
    if (!kernels)
        return DCP_NOMEM;
    uint32_t room = count_refs(graph, kernels);
    uint64_t *key = dcp_arena_alloc(arena, (room + 1) * sizeof *key);
    if (!key)
        return DCP_NOMEM;
    for (uint32_t n = 0; n < graph->node_count; n++) {
        const struct dcp_ir_node *node = &graph->nodes[n];

        if (node->op != DCP_OP_LAUNCH || !kernels[node->launch.kernel].known)
            continue;
        for (uint32_t r = 0; r < node->ref_count; r++)
            if (node->refs[r].access & DCP_ASSUMED)
                key[count++] = slot_key(node, &node->refs[r]);
    }
    qsort(key, count, sizeof *key, by_value);
    for (uint32_t i = 0, next; i < count; i = next) {
        for (next = i + 1; next < count && key[next] == key[i]; next++)
            ;
        if ((next - i) * 2 <= kernels[key[i] >> 32].launches)
            key[kept++] = key[i];
    }
    out->slot = key;
    out->count = kept;
    return DCP_OK;
}

bool
dcp_doubt_has(const struct dcp_doubt *doubt, const struct dcp_ir_node *node,
              const struct dcp_ir_ref *ref)
{
    if (node->op != DCP_OP_LAUNCH || !(ref->access & DCP_ASSUMED) ||
        !doubt->count)
        return false;
    uint64_t key = slot_key(node, ref);
    return bsearch(&key, doubt->slot, doubt->count, sizeof key, by_value);
}
