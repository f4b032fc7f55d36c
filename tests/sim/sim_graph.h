/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs, their nodes, and execs. Included by sim.h, whose lock guards them
 * too. */
#ifndef DCP_SIM_SIM_GRAPH_H
#define DCP_SIM_SIM_GRAPH_H

#include "sim.h"

/* ---- sim_graph.c and the rest of the graphs ---------------------------- */

struct sim_graph {
    struct sim_object object;
    struct sim_node *first, *last;
    size_t count;
    uint32_t instances;         /* live execs made from it */
    uint32_t allocs;            /* alloc and free nodes, children included */
    struct sim_node *parent;    /* the child node that owns it */
    struct sim_capture *capture;
    struct sim_user_ref *users;
    uint64_t origin;            /* id of the graph it was cloned from */
};

struct sim_node {
    struct sim_object object;
    struct sim_graph *graph;
    struct sim_node *next, *prev;
    struct sim_work *work;
    struct sim_edges before, after;
    uint64_t origin;            /* id of the node it was cloned from */
    size_t mark;                /* scratch of flatten and copy */
};

struct sim_graph *sim_graph_new(void);
void sim_graph_free(struct sim_graph *graph);
CUresult sim_graph_copy(struct sim_graph *from, struct sim_graph **out);
/* Adds a node; takes over the reference to `work`, also on failure. */
CUresult sim_node_add(struct sim_graph *graph, const CUgraphNode *before,
                      const CUgraphEdgeData *data, size_t count,
                      struct sim_work *work, struct sim_node **out);
int sim_node_link(struct sim_node *from, struct sim_node *to,
                  const CUgraphEdgeData *data);
bool sim_node_reaches(struct sim_node *from, struct sim_node *to);
CUgraphNodeType sim_node_type(const struct sim_node *node);

struct sim_user_ref {
    struct sim_user *user;
    unsigned count;
    struct sim_user_ref *next;
};
void sim_users_copy(struct sim_user_ref **to, struct sim_user_ref *from);
void sim_users_clear(struct sim_user_ref **refs);

struct sim_flat_node {
    struct sim_work *work;
    uint64_t source;            /* id of the node it stands for */
    bool enabled;
    bool child_end;             /* the end of a child graph, whose nodes are */
    uint32_t child_first;       /* those from here to it */
    uint32_t before_count, before_first; /* in flat.before */
    struct sim_node *node;      /* valid while it is being built */
};

/* A graph with its children laid out in one list, in the order of creation. */
struct sim_flat {
    struct sim_flat_node *nodes;
    uint32_t count, room;
    uint32_t *before;           /* indices of predecessors */
    uint32_t before_count, before_room;
    uint32_t *order;            /* a topological order */
    bool *leaf;
};

CUresult sim_flat_build(struct sim_graph *graph, struct sim_flat *flat,
                        struct sim_node **culprit);
void sim_flat_clear(struct sim_flat *flat);

struct sim_exec {
    struct sim_object object;
    struct sim_graph *graph;    /* NULL once it is destroyed */
    uint64_t graph_id;
    struct sim_flat flat;
    unsigned long long flags;
    struct sim_op *last;        /* end of its latest launch */
    struct sim_user_ref *users;
    uint32_t allocs;
    bool dead;
};

struct sim_exec *sim_exec_get(CUgraphExec handle);
/* The exec's part that stands for a node of the graph it was made from. */
struct sim_flat_node *sim_exec_node(struct sim_exec *exec, CUgraphNode node);

struct sim_graph *sim_graph_get(CUgraph handle);
struct sim_node *sim_node_get(CUgraphNode handle, int kind); /* -1: any */
struct sim_work *sim_kernel_work_copy(const struct sim_work *work);
/* Turns cuGraphAddNode-style parameters into work (which may point into the
 * parameters only until it returns). */
CUresult sim_node_work(CUgraphNodeParams *params, struct sim_work **out);
CUresult sim_alloc_work_new(CUDA_MEM_ALLOC_NODE_PARAMS *desc,
                            struct sim_work **out);
CUresult sim_free_work_new(CUdeviceptr at, struct sim_work **out);
void sim_alloc_release(struct sim_range *range);
/* Whether `to` may stand in the place of `from` in an exec. */
CUgraphExecUpdateResult sim_work_compatible(const struct sim_work *from,
                                            const struct sim_work *to);

#endif
