/* SPDX-License-Identifier: Apache-2.0 */
/* The iterations that are known: a prefix tree of recorded calls. The root
 * stands for an iteration border; each path from it is one variant of the
 * iteration. A node keeps the shape of its call (kind, function, stream) and
 * the argument bytes that were last seen there (the shadow). Everything here
 * is guarded by the session's lock. */
#ifndef DCP_REPLAY_TRIE_H
#define DCP_REPLAY_TRIE_H

#include "capture/record.h"
#include "src/arena.h"

struct dcp_segment;
struct dcp_stage;

/* The nodes that were recorded in one go after a divergence: they share an
 * arena and go together. */
struct dcp_branch {
    struct dcp_arena arena; /* holds this struct too */
    struct dcp_node *head, *tail;
};

struct dcp_node {
    /* What the follower compares and updates on each call. */
    uint8_t op, fold;
    bool stale;             /* the executable graph holds older values */
    bool anchor;            /* the launch that tells where iterations end */
    bool refused;           /* the driver does not take it into a graph */
    bool failed;            /* the call once failed: never swallow it */
    uint16_t hook;
    uint64_t stream;
    CUfunction handle;      /* launches */
    uint64_t attrs_hash;
    struct dcp_node *child, *sibling, *parent;
    struct dcp_segment *segment; /* NULL: issued in place */
    uint32_t at;                 /* index in segment->nodes */
    uint32_t gpu_ns;             /* measured; 0: not */
    CUgraphNode graph_node;
    struct dcp_call call;        /* last values; launch.params is the shadow */
    void **pointers;             /* into the shadow, for kernelParams */
    CUlaunchAttribute *attrs;
    uint32_t attr_count;
    CUDA_KERNEL_NODE_PARAMS params; /* of the graph node */
    struct dcp_stage *stage;     /* pageable uploads: where the bytes wait */

    /* Placement (plan.h). */
    bool planned;                /* ALLOC: placement has looked at it */
    bool served;                 /* ALLOC: a block lives at its planned place */
    struct dcp_node *served_next, *served_prev;
    uint32_t plan;               /* ALLOC: whose plan `place` belongs to */
    uint32_t origin;             /* the plan whose origin is before this call */
    uint64_t origin_bytes;       /* that plan's range */
    uint64_t origin_stream;      /* of all its blocks, or DCP_PLAN_STREAMS */
    int64_t place;               /* bytes into the planned range, or -1 */
    uint64_t place_bytes;
    struct dcp_node *mate;       /* FREE: the allocation that the plan ends */
    struct dcp_node *seen_mate;  /* FREE: the one that it ended last ... */
    uint32_t seen_age;           /* ... and how many iterations it had lived */
    uint64_t block;              /* ALLOC: the heap's number of the block that
                                    was served last, where there is a trace */

    uint32_t depth;              /* calls from the root */
    uint32_t visits;             /* leaves: iterations that ended here */
    uint32_t graph;              /* leaves: number of the variant's IR, 0: none */
    uint32_t built;              /* leaves: the tree's state when built */
    bool placed;                 /* leaves: addresses were planned */
    uint64_t last_pass;          /* number of the iteration that came last */
    struct dcp_branch *branch;
};

struct dcp_trie {
    struct dcp_node root;
    uint32_t nodes;
    uint64_t bytes;
    uint32_t state;  /* grows when a new path is built */
};

void dcp_trie_init(struct dcp_trie *trie);

/* The child of `from` whose shape is that of `view`, or NULL; the child found
 * becomes the first to be looked at next time. `attrs_hash` as from
 * dcp_attrs_hash (0 for what is no launch). */
struct dcp_node *dcp_trie_find(struct dcp_node *from,
                               const struct dcp_view *view,
                               uint64_t attrs_hash);

/* Adds a child for a call that was not known there. NULL when memory is out. */
struct dcp_node *dcp_trie_add(struct dcp_trie *trie, struct dcp_node *from,
                              const struct dcp_view *view);

/* Takes the values of `view` into the node's shadow. 1: something changed, 0:
 * nothing did, -1: the values cannot be taken (issue the call in place). */
int dcp_node_take(struct dcp_node *node, const struct dcp_view *view);

/* Removes the subtree at the head of a branch (its segments were destroyed
 * before). */
void dcp_trie_remove(struct dcp_trie *trie, struct dcp_branch *branch);

/* Issues a node's call with its shadow values on `stream` (NULL handle: the
 * node's own stream). Launches, copies and fills only. */
CUresult dcp_node_issue(struct dcp_node *node, CUstream stream);

#endif
