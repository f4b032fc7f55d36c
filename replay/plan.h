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
 * All functions but the heap's own questions: under the session's lock. */
#ifndef DCP_REPLAY_PLAN_H
#define DCP_REPLAY_PLAN_H

#include "replay/trie.h"

#include <stdbool.h>

/* At the origin of plan `id` (from 1), which needs `bytes`: on if the range is
 * empty and large enough. True when the range is too small and may be made
 * larger now (dcp_plan_range, then ask again). */
bool dcp_plan_origin(uint32_t id, uint64_t bytes);

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
CUdeviceptr dcp_plan_take(struct dcp_node *node, uint64_t bytes);

/* The heap served the allocation at `node`. */
void dcp_plan_note(struct dcp_node *node, CUdeviceptr address, uint64_t bytes);

/* A free at `node` (NULL: outside the tree). Keeps in the node which
 * allocation it ended. True when the address was a planned one; it is free
 * now. */
bool dcp_plan_give(struct dcp_node *node, CUdeviceptr address);

/* Live planned bytes and blocks, and the range's size. */
void dcp_plan_get(uint64_t *live, uint32_t *blocks, uint64_t *bytes);

#endif
