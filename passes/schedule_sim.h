/* SPDX-License-Identifier: Apache-2.0 */
/* Predicts how one iteration runs: a discrete-event simulation of the host
 * that issues the nodes, of streams that each run theirs in order, and of
 * engines that run one node at a time, in the order in which nodes become
 * ready. Computes, never edits. */
#ifndef DCP_PASSES_SCHEDULE_SIM_H
#define DCP_PASSES_SCHEDULE_SIM_H

#include "passes/cost.h"
#include "src/arena.h"
#include "src/ir.h"
#include "src/status.h"

#include <stdint.h>

enum dcp_engine {
    DCP_ENGINE_COMPUTE,  /* kernels, fills, device copies */
    DCP_ENGINE_UPLOAD,   /* host to device */
    DCP_ENGINE_DOWNLOAD, /* device to host */
    DCP_ENGINE_LINK,     /* collectives */
    DCP_ENGINE_COUNT
};

struct dcp_schedule {
    uint64_t *begin_ns, *end_ns; /* by node, from the iteration's begin */
    uint64_t step_ns;            /* until the last node and the host are done */
    uint64_t host_wait_ns;       /* of it the host waits */
    uint64_t busy_ns[DCP_ENGINE_COUNT];
    uint64_t peak_bytes; /* most live at once, as the streams go on */
    uint64_t peak_ns;    /* when, first */
};

/* Simulates a graph that dcp_ir_verify accepts. Arrays lie in `arena`. n log n.
 * DCP_NOMEM leaves *out undefined. Times stop at UINT64_MAX. */
enum dcp_status dcp_schedule_fill(const struct dcp_graph *graph,
                                  const struct dcp_cost *cost,
                                  struct dcp_arena *arena,
                                  struct dcp_schedule *out);

/* The engine that a node of work needs. */
enum dcp_engine dcp_engine_of(const struct dcp_ir_node *node);

#endif
