/* SPDX-License-Identifier: Apache-2.0 */
/* From a run of recorded calls (one iteration) to an IR graph. */
#ifndef DCP_CAPTURE_LIFT_H
#define DCP_CAPTURE_LIFT_H

#include "src/ir.h"
#include "src/status.h"

#include "capture/access.h"
#include "capture/call.h"

struct dcp_lift_options {
    /* Call index; a block is persistent when it was allocated before this
     * call and lives on after the run. Usually the first border of the
     * period; not above the run's first call. */
    uint32_t since;
    /* (optional) What was found about reads and writes; without it every
     * reference of a launch is assumed to read and write. */
    const struct dcp_access_table *access;
};

/* Builds the graph of calls [first, last): buffers and kernels in order of
 * first appearance, one node a call, node.call = the call's index less
 * `first`. Accumulation steps are found (micro.h), roles are not filled in
 * (role.h). graph->key is a hash of the shape
 * keys of the calls. `options` may be NULL. On success *out is the caller's to
 * destroy; DCP_INVALID for a bad range, DCP_NOMEM. */
enum dcp_status dcp_lift(const struct dcp_log *log, uint32_t first,
                         uint32_t last, const struct dcp_lift_options *options,
                         struct dcp_graph **out);

/* Looks for a live block that holds `address`; false when there is none. The
 * answer's number and offset go to *buffer and *offset. */
typedef bool dcp_ref_finder(void *user, uint64_t address, uint32_t *buffer,
                            uint64_t *offset);

/* Finds the references among the packed parameters of a launch: each aligned
 * 8-byte word that lies in [base, base + range) and in a live block. An
 * address one past a block's end is none. At most `room` are written to
 * `refs`, in order of slot; returns how many there are. No allocation. */
uint32_t dcp_refs_scan(const uint8_t *params, uint32_t bytes, uint64_t base,
                       uint64_t range, dcp_ref_finder *find, void *user,
                       struct dcp_ref *refs, uint32_t room);

#endif
