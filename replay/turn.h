/* SPDX-License-Identifier: Apache-2.0 */
/* An iteration is a circle. Cut where it was recorded, blocks that live from
 * one iteration into the next (gradients that the next step frees) are in two
 * pieces; cut elsewhere, they are whole and can be given an address. */
#ifndef DCP_REPLAY_TURN_H
#define DCP_REPLAY_TURN_H

#include "src/ir.h"

/* A block allocated by node `alloc` that node `free`, earlier in the order,
 * ends in the next iteration. */
struct dcp_wrap {
    uint32_t alloc, free;
};

/* The cut at which the most bytes can be placed: 0, or the number of the node
 * that comes first then. Graphs in which a stream waits for events are not
 * turned. Linear. */
uint32_t dcp_turn_origin(const struct dcp_graph *graph,
                         const struct dcp_wrap *wraps, uint32_t count);

/* The same circle, beginning at node `origin`: each wrap's two buffers are one,
 * and a buffer that lives across the new cut becomes two. Calls are numbered
 * from the cut on: call c is call (c + origin) % node_count of `graph`, of
 * which each node must be one call. NULL when memory is out. The caller destroys it. */
struct dcp_graph *dcp_turn(const struct dcp_graph *graph, uint32_t origin,
                           const struct dcp_wrap *wraps, uint32_t count);

#endif
