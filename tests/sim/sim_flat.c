/* SPDX-License-Identifier: Apache-2.0 */
/* Lays a graph out as an exec keeps it: one list of parts in the order in
 * which nodes were made, child graphs in place, followed by a part for their
 * end; indices instead of pointers; and a topological order. */
#include "sim.h"

#include <stdlib.h>
#include <string.h>

static uint32_t
part_add(struct sim_flat *flat, struct sim_node *node, struct sim_work *work)
{
    if (flat->count == flat->room) {
        flat->room = flat->room ? flat->room * 2 : 64;
        flat->nodes = realloc(flat->nodes, flat->room * sizeof *flat->nodes);
    }
    flat->nodes[flat->count] = (struct sim_flat_node){
        .work = work, .source = node->object.id, .enabled = true, .node = node};
    return flat->count++;
}

static void
parts_add(struct sim_flat *flat, struct sim_graph *graph)
{
    for (struct sim_node *node = graph->first; node; node = node->next) {
        if (node->work->kind != SIM_WORK_CHILD) {
            node->mark = part_add(flat, node, sim_work_ref(node->work));
            continue;
        }
        uint32_t first = flat->count;
        parts_add(flat, node->work->child);
        node->mark = part_add(flat, node, NULL);
        flat->nodes[node->mark].child_end = true;
        flat->nodes[node->mark].child_first = first;
    }
}

static void
before_add(struct sim_flat *flat, uint32_t index)
{
    if (flat->before_count == flat->before_room) {
        flat->before_room = flat->before_room ? flat->before_room * 2 : 64;
        flat->before = realloc(flat->before,
                               flat->before_room * sizeof *flat->before);
    }
    flat->before[flat->before_count++] = index;
}

/* What a node waits for; the roots of a child graph wait for what the child
 * node waits for. */
static void
node_before(struct sim_flat *flat, const struct sim_node *node)
{
    while (node->before.count == 0 && node->graph->parent)
        node = node->graph->parent;
    for (uint32_t i = 0; i < node->before.count; i++)
        before_add(flat, (uint32_t)node->before.at[i].node->mark);
}

static void
befores_fill(struct sim_flat *flat)
{
    for (uint32_t i = 0; i < flat->count; i++) {
        struct sim_flat_node *part = &flat->nodes[i];
        part->before_first = flat->before_count;
        if (part->child_end && part->node->work->child->count > 0) {
            const struct sim_graph *child = part->node->work->child;
            for (const struct sim_node *n = child->first; n; n = n->next)
                if (n->after.count == 0)
                    before_add(flat, (uint32_t)n->mark);
        } else {
            node_before(flat, part->node);
        }
        part->before_count = flat->before_count - part->before_first;
    }
}

/* Fills order and leaf; the index of a part on a cycle, or UINT32_MAX. */
static uint32_t
sort(struct sim_flat *flat)
{
    uint32_t *waiting = calloc(flat->count + 1, sizeof *waiting);
    uint32_t *first = calloc(flat->count + 2, sizeof *first);
    uint32_t *after = calloc(flat->before_count + 1, sizeof *after);
    uint32_t head = 0, tail = 0, bad = UINT32_MAX;
    flat->order = calloc(flat->count + 1, sizeof *flat->order);
    flat->leaf = calloc(flat->count + 1, sizeof *flat->leaf);
    for (uint32_t i = 0; i < flat->before_count; i++)
        first[flat->before[i] + 1]++;
    for (uint32_t i = 0; i < flat->count; i++) {
        flat->leaf[i] = first[i + 1] == 0;
        first[i + 1] += first[i];
    }
    for (uint32_t i = 0; i < flat->count; i++) {
        const struct sim_flat_node *part = &flat->nodes[i];
        waiting[i] = part->before_count;
        if (waiting[i] == 0)
            flat->order[tail++] = i;
        for (uint32_t j = 0; j < part->before_count; j++)
            after[first[flat->before[part->before_first + j]]++] = i;
    }
    while (head < tail) { /* first[x] is now the end of x's list */
        uint32_t i = flat->order[head++];
        for (uint32_t j = i ? first[i - 1] : 0; j < first[i]; j++)
            if (--waiting[after[j]] == 0)
                flat->order[tail++] = after[j];
    }
    for (uint32_t i = 0; i < flat->count && tail < flat->count; i++)
        if (waiting[i] > 0)
            bad = i;
    free(waiting);
    free(first);
    free(after);
    return bad;
}

CUresult
sim_flat_build(struct sim_graph *graph, struct sim_flat *flat,
               struct sim_node **culprit)
{
    memset(flat, 0, sizeof *flat);
    parts_add(flat, graph);
    befores_fill(flat);
    uint32_t bad = sort(flat);
    if (bad != UINT32_MAX) {
        if (culprit)
            *culprit = flat->nodes[bad].node;
        sim_flat_clear(flat);
        return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

void
sim_flat_clear(struct sim_flat *flat)
{
    for (uint32_t i = 0; i < flat->count; i++)
        sim_work_drop(flat->nodes[i].work);
    free(flat->nodes);
    free(flat->before);
    free(flat->order);
    free(flat->leaf);
    memset(flat, 0, sizeof *flat);
}
