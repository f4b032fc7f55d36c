/* SPDX-License-Identifier: Apache-2.0 */
/* Measured GPU times of a recorded iteration. */
#ifndef DCP_CAPTURE_PROFILE_H
#define DCP_CAPTURE_PROFILE_H

#include "src/arena.h"
#include "src/ir.h"
#include "src/status.h"

/* Several launches of one kernel. */
struct dcp_profile_kernel {
    uint32_t kernel; /* number in the graph */
    uint32_t launches;
    uint64_t total_ns, least_ns, most_ns;
};

struct dcp_profile {
    uint64_t total_ns;  /* of all measured nodes */
    uint64_t launch_ns, copy_ns, fill_ns;
    uint64_t part_ns[DCP_PART_COUNT];
    uint32_t measured;  /* nodes of work with a time */
    uint32_t unmeasured; /* ... without */
    struct dcp_profile_kernel *kernels; /* the longest in total first */
    uint32_t kernel_count;              /* those with a measured launch */
};

/* Sets node.gpu_ns of each node of work from `call_ns`, indexed by node.call;
 * `count` entries; UINT64_MAX: that call was not measured. Several measured
 * iterations: call once each, `best` true keeps the smaller time of each node
 * (0 counts as not measured), which leaves out disturbances. */
void dcp_profile_apply(struct dcp_graph *graph, const uint64_t *call_ns,
                       uint32_t count, bool best);

/* Sums up what the nodes carry. The list is in `arena`. DCP_NOMEM. */
enum dcp_status dcp_profile_sum(const struct dcp_graph *graph,
                                struct dcp_profile *out,
                                struct dcp_arena *arena);

#endif
