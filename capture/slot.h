/* SPDX-License-Identifier: Apache-2.0 */
/* Parameters of kernels that now and then hold a stale pointer: structs are
 * passed whole, and what a launch does not use of them is what was in the
 * program's memory before. */
#ifndef DCP_CAPTURE_SLOT_H
#define DCP_CAPTURE_SLOT_H

#include "src/arena.h"
#include "src/ir.h"
#include "src/status.h"

/* Slots of kernels whose references are doubtful, in order. */
struct dcp_doubt {
    uint64_t *slot; /* kernel and slot */
    uint32_t count;
};

/* Finds the slots that hold a reference in at most half of their kernel's
 * launches and of which no access is known, although accesses of the kernel
 * are. In the arena; DCP_NOMEM. Time n log n in references. */
enum dcp_status dcp_doubt_find(const struct dcp_graph *graph,
                               struct dcp_arena *arena,
                               struct dcp_doubt *out);

/* True when the reference may well be no argument at all. */
bool dcp_doubt_has(const struct dcp_doubt *doubt,
                   const struct dcp_ir_node *node,
                   const struct dcp_ir_ref *ref);

#endif
