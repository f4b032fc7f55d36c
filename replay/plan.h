/* SPDX-License-Identifier: Apache-2.0 */
/* Planned addresses: blocks that are born and die in one iteration live at
 * offsets that the placement pass chose, in one range of the heap. Handing
 * one out takes no search; it is right because the follower has seen every
 * earlier allocation and free of the iteration where it was expected. When
 * one is not, the plan is off until the next iteration border at which the
 * range is empty, and the heap serves instead. */
#ifndef DCP_REPLAY_PLAN_H
#define DCP_REPLAY_PLAN_H

#include "replay/trie.h"
#include "src/ir.h"

#include <stdbool.h>

/* Enlarges the range to at least `bytes`. May only be called at an iteration
 * border with the device idle. False: no range, allocations go to the heap. */
bool dcp_plan_range(uint64_t bytes);

/* At an iteration border: the plan may be used if the range is empty. */
void dcp_plan_begin(void);

/* The iteration is no longer the expected one: no more planned addresses. */
void dcp_plan_break(void);

/* The planned address for an allocation of `bytes`, or 0. */
CUdeviceptr dcp_plan_take(struct dcp_node *node, uint64_t bytes);

/* A free that was met at `node` (NULL: not in a followed iteration). True
 * when the address was a planned one and is now free. */
bool dcp_plan_give(const struct dcp_node *node, CUdeviceptr address);

/* True when `address` lies in the planned range. */
bool dcp_plan_owns(CUdeviceptr address);

/* Live bytes and blocks in the range, and the range's size. */
void dcp_plan_get(uint64_t *live, uint32_t *blocks, uint64_t *bytes);

#endif
