/* SPDX-License-Identifier: Apache-2.0 */
/* Planned addresses. A plan belongs to one way through an iteration, seen as a
 * circle that is cut at its origin: the call at which the fewest bytes that
 * could be planned are alive (for a training program, after the gradients of
 * the step before were freed). Blocks that are born and die between an origin
 * and the next live at offsets that the placement pass chose, in one range of
 * the heap.
 *
 * Handing an address out takes no search. It is right because, since the
 * origin, when the range was empty, the follower has seen every allocation and
 * every free where the plan has it. When one is not as planned, the plan is
 * off until the next origin at which the range is empty, and the heap serves.
 *
 * All functions: under the session's lock, which the heap's questions take
 * where their thread does not hold it. */
#ifndef DCP_REPLAY_PLAN_H
#define DCP_REPLAY_PLAN_H

#include "replay/trie.h"

#include <stdbool.h>

/* For the two short ways below, and plan.c. */
extern struct dcp_plan {
    struct dcp_node *served; /* nodes whose planned block lives */
    CUdeviceptr base;        /* of the range */
    uint64_t bytes, live;
    uint32_t count;          /* live planned blocks */
    uint32_t id;
    uint64_t stream;         /* of all blocks of plan `id`, or ... */
    bool unordered;          /* its reuse needs an idle device first */
    bool on;
} dcp_plan;

static inline CUdeviceptr
dcp_plan_place(const struct dcp_node *node)
{
    return dcp_plan.base + (uint64_t)node->place;
}

/* A plan's stream where its blocks are on several. */
#define DCP_PLAN_STREAMS (~(uint64_t)0)

/* At the origin of plan `id` (from 1), which needs `bytes`: on if the range is
 * empty, large enough, and what was there before is over in the order of
 * `stream`. True when only an idle device or a larger range is missing, which
 * may be had now (dcp_plan_range, then ask again). */
bool dcp_plan_origin(uint32_t id, uint64_t bytes, uint64_t stream);

/* Enlarges the range to at least `bytes`; the device is idle. False: it stays
 * as it is, and is not asked for again. */
bool dcp_plan_range(uint64_t bytes);

/* Off until the next origin. */
void dcp_plan_break(void);

/* Nodes are about to be removed: nothing points at them any more. */
void dcp_plan_unpin(void);

/* A new iteration begins (numbers the allocations noted from here on). */
void dcp_plan_pass(uint64_t number);

/* The planned address for an allocation of `bytes` at `node`, or 0. */
static inline CUdeviceptr
dcp_plan_take(struct dcp_node *node, uint64_t bytes)
{
    if (!dcp_plan.on || node->plan != dcp_plan.id ||
        node->place_bytes != bytes || node->served ||
        (uint64_t)node->place + bytes > dcp_plan.bytes)
        return 0;
    node->served = true;
    node->served_prev = NULL;
    node->served_next = dcp_plan.served;
    if (dcp_plan.served)
        dcp_plan.served->served_prev = node;
    dcp_plan.served = node;
    dcp_plan.count++;
    dcp_plan.live += bytes;
    return dcp_plan_place(node);
}

/* The block at the node's planned place is no more. */
static inline void
dcp_plan_unserve(struct dcp_node *node)
{
    node->served = false;
    if (node->served_prev)
        node->served_prev->served_next = node->served_next;
    else
        dcp_plan.served = node->served_next;
    if (node->served_next)
        node->served_next->served_prev = node->served_prev;
    dcp_plan.count--;
    dcp_plan.live -= node->place_bytes;
}

/* The short way of a free: true, and the block is free, when it is the one
 * that the plan has die at `node`. Otherwise nothing happens. */
static inline bool
dcp_plan_give_back(struct dcp_node *node, CUdeviceptr address)
{
    struct dcp_node *mate = node->mate;

    if (!mate || !mate->served || address != dcp_plan_place(mate))
        return false;
    dcp_plan_unserve(mate);
    return true;
}

/* The heap served the allocation at `node`. */
void dcp_plan_note(struct dcp_node *node, CUdeviceptr address, uint64_t bytes);

/* A free at `node` (NULL: outside the tree). Keeps in the node which
 * allocation it ended. True when the address was a planned one; it is free
 * now. */
bool dcp_plan_give(struct dcp_node *node, CUdeviceptr address);

/* Live planned bytes and blocks, and the range's size. */
void dcp_plan_get(uint64_t *live, uint32_t *blocks, uint64_t *bytes);

#endif
