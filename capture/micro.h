/* SPDX-License-Identifier: Apache-2.0 */
/* Accumulation steps within one iteration. */
#ifndef DCP_CAPTURE_MICRO_H
#define DCP_CAPTURE_MICRO_H

#include "src/ir.h"
#include "src/status.h"

/* Sets the micro-step of every node and the graph's micro_count, from which
 * launches touch which persistent buffers how often: in an iteration of K
 * steps most come K times, in the same order. Work before the first step's
 * (an evaluation) belongs to the first, work after the last step's (the
 * update) to the last. DCP_NOMEM leaves the graph as it was. Time in
 * proportion to nodes and references. */
enum dcp_status dcp_micro_fill(struct dcp_graph *graph);

#endif
