/* SPDX-License-Identifier: Apache-2.0 */
/* Questions about a graph's nodes and edges, and changes to its edges. */
#include "sim.h"

#include <stdio.h>
#include <string.h>

static CUresult
list_nodes(CUgraph handle, CUgraphNode *out, size_t *count, bool roots)
{
    struct sim_graph *graph = sim_graph_get(handle);
    if (graph == NULL || count == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    size_t found = 0;
    for (struct sim_node *n = graph->first; n; n = n->next) {
        if (roots && n->before.count > 0)
            continue;
        if (out && found < *count)
            out[found] = (CUgraphNode)n;
        found++;
    }
    for (size_t i = found; out && i < *count; i++)
        out[i] = NULL;
    if (out == NULL || found < *count)
        *count = found;
    return CUDA_SUCCESS;
}

CUresult
cuGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *count)
{
    SIM_API(SIM_INIT);
    return list_nodes(graph, nodes, count, false);
}

CUresult
cuGraphGetRootNodes(CUgraph graph, CUgraphNode *nodes, size_t *count)
{
    SIM_API(SIM_INIT);
    return list_nodes(graph, nodes, count, true);
}

static bool
is_plain(const CUgraphEdgeData *data)
{
    return data->from_port == 0 && data->to_port == 0 && data->type == 0;
}

static CUresult
list_edges(CUgraph handle, CUgraphNode *from, CUgraphNode *to,
           CUgraphEdgeData *data, size_t *count)
{
    struct sim_graph *graph = sim_graph_get(handle);
    if (graph == NULL || count == NULL || (from == NULL) != (to == NULL))
        return CUDA_ERROR_INVALID_VALUE;
    size_t found = 0;
    for (struct sim_node *n = graph->first; n; n = n->next) {
        for (uint32_t i = 0; i < n->after.count; i++) {
            const struct sim_edge *edge = &n->after.at[i];
            if (from && data == NULL && !is_plain(&edge->data))
                return CUDA_ERROR_LOSSY_QUERY;
            if (from && found < *count) {
                from[found] = (CUgraphNode)n;
                to[found] = (CUgraphNode)edge->node;
                if (data)
                    data[found] = edge->data;
            }
            found++;
        }
    }
    for (size_t i = found; from && i < *count; i++)
        from[i] = to[i] = NULL;
    if (from == NULL || found < *count)
        *count = found;
    return CUDA_SUCCESS;
}

CUresult
cuGraphGetEdges(CUgraph graph, CUgraphNode *from, CUgraphNode *to,
                size_t *count)
{
    SIM_API(SIM_INIT);
    return list_edges(graph, from, to, NULL, count);
}

CUresult
cuGraphGetEdges_v2(CUgraph graph, CUgraphNode *from, CUgraphNode *to,
                   CUgraphEdgeData *data, size_t *count)
{
    SIM_API(SIM_INIT);
    return list_edges(graph, from, to, data, count);
}

static CUresult
list_side(const struct sim_edges *edges, CUgraphNode *out,
          CUgraphEdgeData *data, size_t *count)
{
    if (count == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (out == NULL) {
        *count = edges->count;
        return CUDA_SUCCESS;
    }
    for (size_t i = 0; i < *count; i++) {
        if (i >= edges->count) {
            out[i] = NULL;
            continue;
        }
        if (data == NULL && !is_plain(&edges->at[i].data))
            return CUDA_ERROR_LOSSY_QUERY;
        out[i] = (CUgraphNode)edges->at[i].node;
        if (data)
            data[i] = edges->at[i].data;
    }
    if (edges->count < *count)
        *count = edges->count;
    return CUDA_SUCCESS;
}

#define SIDE(name, side)                                                       \
    CUresult name(CUgraphNode handle, CUgraphNode *nodes, size_t *count)       \
    {                                                                          \
        SIM_API(SIM_INIT);                                                     \
        const struct sim_node *node = sim_node_get(handle, -1);                \
        if (node == NULL)                                                      \
            return CUDA_ERROR_INVALID_VALUE;                                   \
        return list_side(&node->side, nodes, NULL, count);                     \
    }                                                                          \
    CUresult name##_v2(CUgraphNode handle, CUgraphNode *nodes,                 \
                       CUgraphEdgeData *data, size_t *count)                   \
    {                                                                          \
        SIM_API(SIM_INIT);                                                     \
        const struct sim_node *node = sim_node_get(handle, -1);                \
        if (node == NULL)                                                      \
            return CUDA_ERROR_INVALID_VALUE;                                   \
        return list_side(&node->side, nodes, data, count);                     \
    }
SIDE(cuGraphNodeGetDependencies, before)
SIDE(cuGraphNodeGetDependentNodes, after)

static CUresult
pair_get(struct sim_graph *graph, CUgraphNode from, CUgraphNode to,
         struct sim_node **a, struct sim_node **b)
{
    *a = sim_node_get(from, -1);
    *b = sim_node_get(to, -1);
    if (*a == NULL || *b == NULL || (*a)->graph != graph ||
        (*b)->graph != graph || *a == *b)
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

static CUresult
add_edges(CUgraph handle, const CUgraphNode *from, const CUgraphNode *to,
          const CUgraphEdgeData *data, size_t count)
{
    struct sim_graph *graph = sim_graph_get(handle);
    struct sim_node *a, *b;
    if (graph == NULL || (count > 0 && (from == NULL || to == NULL)))
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; i++)
        if (pair_get(graph, from[i], to[i], &a, &b) != CUDA_SUCCESS)
            return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; i++) {
        pair_get(graph, from[i], to[i], &a, &b);
        if (sim_node_link(a, b, data ? &data[i] : NULL) != 0)
            return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

static bool
unlink_edge(struct sim_edges *edges, const struct sim_node *node,
            const CUgraphEdgeData *data)
{
    for (uint32_t i = 0; i < edges->count; i++) {
        const struct sim_edge *edge = &edges->at[i];
        if (edge->node != node)
            continue;
        if (data ? memcmp(&edge->data, data, sizeof *data) == 0
                 : is_plain(&edge->data)) {
            sim_edges_remove(edges, i);
            return true;
        }
    }
    return false;
}

static CUresult
remove_edges(CUgraph handle, const CUgraphNode *from, const CUgraphNode *to,
             const CUgraphEdgeData *data, size_t count)
{
    struct sim_graph *graph = sim_graph_get(handle);
    struct sim_node *a, *b;
    if (graph == NULL || (count > 0 && (from == NULL || to == NULL)))
        return CUDA_ERROR_INVALID_VALUE;
    if (graph->allocs)
        return CUDA_ERROR_NOT_SUPPORTED;
    for (size_t i = 0; i < count; i++) {
        if (pair_get(graph, from[i], to[i], &a, &b) != CUDA_SUCCESS)
            return CUDA_ERROR_INVALID_VALUE;
        if (!unlink_edge(&b->before, a, data ? &data[i] : NULL))
            return CUDA_ERROR_INVALID_VALUE;
        unlink_edge(&a->after, b, data ? &data[i] : NULL);
    }
    return CUDA_SUCCESS;
}

CUresult
cuGraphAddDependencies(CUgraph graph, const CUgraphNode *from,
                       const CUgraphNode *to, size_t count)
{
    SIM_API(SIM_INIT);
    return add_edges(graph, from, to, NULL, count);
}

CUresult
cuGraphAddDependencies_v2(CUgraph graph, const CUgraphNode *from,
                          const CUgraphNode *to, const CUgraphEdgeData *data,
                          size_t count)
{
    SIM_API(SIM_INIT);
    return add_edges(graph, from, to, data, count);
}

CUresult
cuGraphRemoveDependencies(CUgraph graph, const CUgraphNode *from,
                          const CUgraphNode *to, size_t count)
{
    SIM_API(SIM_INIT);
    return remove_edges(graph, from, to, NULL, count);
}

CUresult
cuGraphRemoveDependencies_v2(CUgraph graph, const CUgraphNode *from,
                             const CUgraphNode *to,
                             const CUgraphEdgeData *data, size_t count)
{
    SIM_API(SIM_INIT);
    return remove_edges(graph, from, to, data, count);
}

CUresult
cuGraphDebugDotPrint(CUgraph handle, const char *path, unsigned int flags)
{
    SIM_API(SIM_INIT);
    (void)flags;
    struct sim_graph *graph = sim_graph_get(handle);
    if (graph == NULL || path == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    FILE *out = fopen(path, "we");
    if (out == NULL)
        return CUDA_ERROR_OPERATING_SYSTEM;
    fprintf(out, "digraph dcpsim {\n");
    size_t count = 0;
    for (struct sim_node *n = graph->first; n; n = n->next) {
        n->mark = count++;
        fprintf(out, "n%zu [label=\"%zu type %d\"]\n", n->mark, n->mark,
                (int)sim_node_type(n));
    }
    for (struct sim_node *n = graph->first; n; n = n->next)
        for (uint32_t i = 0; i < n->after.count; i++)
            fprintf(out, "n%zu -> n%zu\n", n->mark, n->after.at[i].node->mark);
    fprintf(out, "}\n");
    fclose(out);
    return CUDA_SUCCESS;
}
