/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs: nodes, edges, copies, and questions about them. */
#include "sim.h"

#include <stdlib.h>
#include <string.h>

void
sim_edges_add(struct sim_edges *edges, struct sim_node *node,
              const CUgraphEdgeData *data)
{
    CUgraphEdgeData plain;
    memset(&plain, 0, sizeof plain);
    if (data == NULL)
        data = &plain;
    for (uint32_t i = 0; i < edges->count; i++)
        if (edges->at[i].node == node &&
            memcmp(&edges->at[i].data, data, sizeof *data) == 0)
            return;
    if (edges->count == edges->room) {
        edges->room = edges->room ? edges->room * 2 : 4;
        edges->at = realloc(edges->at, edges->room * sizeof *edges->at);
    }
    edges->at[edges->count++] = (struct sim_edge){node, *data};
}

void
sim_edges_remove(struct sim_edges *edges, uint32_t index)
{
    edges->count--;
    memmove(edges->at + index, edges->at + index + 1,
            (edges->count - index) * sizeof *edges->at);
}

static void
edges_forget(struct sim_edges *edges, const struct sim_node *node)
{
    for (uint32_t i = edges->count; i > 0; i--)
        if (edges->at[i - 1].node == node)
            sim_edges_remove(edges, i - 1);
}

void
sim_edges_clear(struct sim_edges *edges)
{
    free(edges->at);
    memset(edges, 0, sizeof *edges);
}

void
sim_edges_copy(struct sim_edges *to, const struct sim_edges *from)
{
    to->count = 0;
    for (uint32_t i = 0; i < from->count; i++)
        sim_edges_add(to, from->at[i].node, &from->at[i].data);
}

struct sim_graph *
sim_graph_new(void)
{
    return sim_object_new(SIM_GRAPH, sizeof(struct sim_graph));
}

struct sim_graph *
sim_graph_get(CUgraph handle)
{
    return sim_object_get(handle, SIM_GRAPH);
}

struct sim_node *
sim_node_get(CUgraphNode handle, int kind)
{
    struct sim_node *node = sim_object_get(handle, SIM_NODE);
    if (node == NULL || (kind >= 0 && (int)node->work->kind != kind))
        return NULL;
    return node;
}

static bool
is_memory(const struct sim_node *node)
{
    return node->work->kind == SIM_WORK_ALLOC ||
           node->work->kind == SIM_WORK_FREE ||
           (node->work->kind == SIM_WORK_CHILD && node->work->child->allocs);
}

static void
node_free(struct sim_node *node)
{
    struct sim_graph *graph = node->graph;
    for (uint32_t i = 0; i < node->before.count; i++)
        edges_forget(&node->before.at[i].node->after, node);
    for (uint32_t i = 0; i < node->after.count; i++)
        edges_forget(&node->after.at[i].node->before, node);
    sim_edges_clear(&node->before);
    sim_edges_clear(&node->after);
    *(node->prev ? &node->prev->next : &graph->first) = node->next;
    *(node->next ? &node->next->prev : &graph->last) = node->prev;
    graph->count--;
    sim_work_drop(node->work);
    sim_object_free(node);
}

void
sim_graph_free(struct sim_graph *graph)
{
    while (graph->last)
        node_free(graph->last);
    sim_users_clear(&graph->users);
    sim_object_free(graph);
}

/* Exchanges the edges' nodes for the copies that their marks lead to. */
static CUresult
copy_nodes(struct sim_graph *from, struct sim_graph *to)
{
    size_t count = 0;
    struct sim_node **copies = calloc(from->count + 1, sizeof *copies);
    CUresult result = CUDA_SUCCESS;
    for (struct sim_node *n = from->first; n && !result; n = n->next) {
        struct sim_work *work;
        if (n->work->kind == SIM_WORK_CHILD) {
            work = sim_work_new(SIM_WORK_CHILD);
            result = sim_graph_copy(n->work->child, &work->child);
        } else {
            work = sim_work_ref(n->work);
        }
        n->mark = count;
        sim_node_add(to, NULL, NULL, 0, work, &copies[count]);
        copies[count]->origin = n->object.id;
        if (work->kind == SIM_WORK_CHILD)
            work->child->parent = copies[count];
        count++;
    }
    for (struct sim_node *n = from->first; n && !result; n = n->next)
        for (uint32_t i = 0; i < n->before.count; i++)
            sim_node_link(copies[n->before.at[i].node->mark], copies[n->mark],
                          &n->before.at[i].data);
    free(copies);
    return result;
}

CUresult
sim_graph_copy(struct sim_graph *from, struct sim_graph **out)
{
    if (from->allocs)
        return CUDA_ERROR_NOT_SUPPORTED;
    struct sim_graph *graph = sim_graph_new();
    graph->origin = from->object.id;
    sim_users_copy(&graph->users, from->users);
    *out = graph;
    return copy_nodes(from, graph);
}

int
sim_node_link(struct sim_node *from, struct sim_node *to,
              const CUgraphEdgeData *data)
{
    if (from == to || from->graph != to->graph)
        return -1;
    uint32_t count = to->before.count;
    sim_edges_add(&to->before, from, data);
    if (to->before.count == count)
        return -1; /* there already */
    sim_edges_add(&from->after, to, data);
    return 0;
}

/* Whether `to` can be reached from `from` along the edges (or is the same). */
bool
sim_node_reaches(struct sim_node *from, struct sim_node *to)
{
    static size_t round; /* marks of earlier searches are smaller */
    static struct sim_node **stack;
    static size_t room;
    size_t count = 0;
    round += (size_t)1 << 32;
    struct sim_node *node = to;
    for (;;) {
        if (node == from)
            return true;
        for (uint32_t i = 0; i < node->before.count; i++) {
            struct sim_node *next = node->before.at[i].node;
            if (next->mark >= round)
                continue;
            next->mark = round;
            if (count == room) {
                room = room ? room * 2 : 256;
                stack = realloc(stack, room * sizeof *stack);
            }
            stack[count++] = next;
        }
        if (count == 0)
            return false;
        node = stack[--count];
    }
}

CUresult
sim_node_add(struct sim_graph *graph, const CUgraphNode *before,
             const CUgraphEdgeData *data, size_t count, struct sim_work *work,
             struct sim_node **out)
{
    bool bad = count > 0 && before == NULL;
    for (size_t i = 0; i < count && !bad; i++) {
        struct sim_node *node = sim_node_get(before[i], -1);
        bad = node == NULL || node->graph != graph;
        for (size_t j = 0; j < i && !bad; j++)
            bad = before[j] == before[i] && data == NULL;
    }
    if (bad) {
        sim_work_drop(work);
        return CUDA_ERROR_INVALID_VALUE;
    }
    struct sim_node *node = sim_object_new(SIM_NODE, sizeof *node);
    node->graph = graph;
    node->work = work;
    node->prev = graph->last;
    *(graph->last ? &graph->last->next : &graph->first) = node;
    graph->last = node;
    graph->count++;
    if (is_memory(node))
        for (struct sim_graph *g = graph; g; g = g->parent ? g->parent->graph
                                                           : NULL)
            g->allocs++;
    if (work->kind == SIM_WORK_CHILD && work->child)
        work->child->parent = node;
    for (size_t i = 0; i < count; i++)
        sim_node_link((struct sim_node *)before[i], node,
                      data ? &data[i] : NULL);
    *out = node;
    return CUDA_SUCCESS;
}

CUgraphNodeType
sim_node_type(const struct sim_node *node)
{
    static const CUgraphNodeType types[] = {
        [SIM_WORK_EMPTY] = CU_GRAPH_NODE_TYPE_EMPTY,
        [SIM_WORK_KERNEL] = CU_GRAPH_NODE_TYPE_KERNEL,
        [SIM_WORK_COPY] = CU_GRAPH_NODE_TYPE_MEMCPY,
        [SIM_WORK_FILL] = CU_GRAPH_NODE_TYPE_MEMSET,
        [SIM_WORK_HOST] = CU_GRAPH_NODE_TYPE_HOST,
        [SIM_WORK_MEMOP] = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP,
        [SIM_WORK_RECORD] = CU_GRAPH_NODE_TYPE_EVENT_RECORD,
        [SIM_WORK_WAIT] = CU_GRAPH_NODE_TYPE_WAIT_EVENT,
        [SIM_WORK_ALLOC] = CU_GRAPH_NODE_TYPE_MEM_ALLOC,
        [SIM_WORK_FREE] = CU_GRAPH_NODE_TYPE_MEM_FREE,
        [SIM_WORK_CHILD] = CU_GRAPH_NODE_TYPE_GRAPH,
    };
    return types[node->work->kind];
}

CUresult
cuGraphCreate(CUgraph *out, unsigned int flags)
{
    SIM_API(SIM_INIT);
    if (out == NULL || flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    *out = (CUgraph)sim_graph_new();
    return CUDA_SUCCESS;
}

CUresult
cuGraphDestroy(CUgraph handle)
{
    SIM_API(SIM_INIT);
    struct sim_graph *graph = sim_graph_get(handle);
    if (graph == NULL || graph->parent || graph->capture)
        return CUDA_ERROR_INVALID_VALUE;
    sim_graph_free(graph);
    return CUDA_SUCCESS;
}

CUresult
cuGraphClone(CUgraph *out, CUgraph handle)
{
    SIM_API(SIM_INIT);
    struct sim_graph *graph = sim_graph_get(handle), *copy;
    if (out == NULL || graph == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = sim_graph_copy(graph, &copy);
    if (result == CUDA_SUCCESS)
        *out = (CUgraph)copy;
    return result;
}

static struct sim_node *
find_copy(struct sim_graph *graph, uint64_t origin)
{
    for (struct sim_node *n = graph->first; n; n = n->next) {
        if (n->origin == origin)
            return n;
        if (n->work->kind == SIM_WORK_CHILD) {
            struct sim_node *inner = find_copy(n->work->child, origin);
            if (inner)
                return inner;
        }
    }
    return NULL;
}

CUresult
cuGraphNodeFindInClone(CUgraphNode *out, CUgraphNode original, CUgraph handle)
{
    SIM_API(SIM_INIT);
    struct sim_graph *graph = sim_graph_get(handle);
    struct sim_node *node = sim_node_get(original, -1);
    if (out == NULL || graph == NULL || node == NULL || graph->origin == 0)
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_node *copy = find_copy(graph, node->object.id);
    if (copy == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *out = (CUgraphNode)copy;
    return CUDA_SUCCESS;
}

CUresult
cuGraphNodeGetType(CUgraphNode handle, CUgraphNodeType *type)
{
    SIM_API(SIM_INIT);
    struct sim_node *node = sim_node_get(handle, -1);
    if (node == NULL || type == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *type = sim_node_type(node);
    return CUDA_SUCCESS;
}

CUresult
cuGraphDestroyNode(CUgraphNode handle)
{
    SIM_API(SIM_INIT);
    struct sim_node *node = sim_node_get(handle, -1);
    if (node == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (node->graph->allocs)
        return CUDA_ERROR_NOT_SUPPORTED;
    node_free(node);
    return CUDA_SUCCESS;
}
