/* SPDX-License-Identifier: Apache-2.0 */
/* Segments: runs of nodes on one stream that become one executable graph.
 * Guarded by the session's lock. */
#ifndef DCP_REPLAY_LOWER_H
#define DCP_REPLAY_LOWER_H

#include "replay/trie.h"

struct dcp_segment {
    struct dcp_segment *next; /* all segments, for teardown */
    struct dcp_node **nodes;  /* foldable nodes in order */
    uint32_t count;
    uint32_t staged;          /* nodes that upload from a stage */
    uint32_t launches;        /* of the graph, so far */
    uint32_t checked;         /* uses that verify has compared */
    uint32_t refused;         /* while it is built: the node that fails */
    bool dead;                /* verify found it wrong, or the driver refused */
    uint64_t stream;
    uint64_t build_ns;
    CUgraph graph;
    CUgraphExec exec;
};

struct dcp_lower_options {
    uint32_t nodes_first; /* nodes of the first segment after a wait */
    uint32_t nodes_max;   /* segments double up to this */
    uint64_t gpu_ns_max;  /* and end after so much measured GPU time */
};

/* Cuts the path from the root to `leaf` into segments and builds a graph for
 * each run that has none yet (a segment whose cuts no longer fit the tree is
 * rebuilt). Returns how many segments were built. What the driver refuses
 * stays eager. The current context must be the session's; nothing may be
 * pending. */
uint32_t dcp_lower_path(struct dcp_trie *trie, struct dcp_node *leaf,
                        const struct dcp_lower_options *options);

/* Writes the node's shadow into the executable graph. The driver's status. */
CUresult dcp_segment_update(struct dcp_segment *segment, struct dcp_node *node);

/* Launches the whole segment into the program's stream. */
CUresult dcp_segment_launch(struct dcp_segment *segment);

/* Destroys a segment: its nodes become eager. */
void dcp_segment_destroy(struct dcp_segment *segment);

/* Destroys the segments of every node under `node` (itself included). */
void dcp_lower_drop(struct dcp_node *node);

/* How many segments exist, and how many nodes they hold. */
void dcp_lower_count(uint32_t *segments, uint32_t *nodes);

#endif
