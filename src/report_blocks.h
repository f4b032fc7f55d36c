/* SPDX-License-Identifier: Apache-2.0 */
/* Which blocks are live at a point of a trace, and what they are for. */
#ifndef DCP_SRC_REPORT_BLOCKS_H
#define DCP_SRC_REPORT_BLOCKS_H

#include "src/report_timeline.h"
#include "src/table.h"
#include "src/trace_read.h"

#include <stdbool.h>
#include <stdint.h>

struct dcp_model_rank;

/* What ROLE and BLOCK_USE records say of a block. */
struct dcp_known {
    uint64_t block;
    uint64_t graph, buffer; /* graph 0: not used by one */
    uint64_t stack, bytes;  /* of its ALLOC */
    uint8_t role;
    UT_hash_handle hh;
};

/* Blocks that the same stack makes in the same size play the same role. */
struct dcp_pattern {
    struct {
        uint64_t stack, bytes;
    } key;
    uint8_t role;
    UT_hash_handle hh;
};

struct dcp_live_block {
    uint64_t id, bytes, stack;
    uint8_t role;
    bool host; /* it lies in host memory */
    UT_hash_handle hh;
};

struct dcp_blocks {
    const struct dcp_model_rank *rank;
    struct dcp_known *known;
    struct dcp_pattern *patterns;
    struct dcp_live_block *live;
    struct dcp_level level; /* of the live blocks */
};

/* Two readings ahead of the others: first all records through learn_roles,
 * then all through learn_patterns. */
void dcp_blocks_learn_roles(struct dcp_blocks *blocks,
                            const struct dcp_trace_event *e);
void dcp_blocks_learn_patterns(struct dcp_blocks *blocks,
                               const struct dcp_trace_event *e);

/* Follows ALLOC and FREE. True when the record changed what is live. */
bool dcp_blocks_track(struct dcp_blocks *blocks,
                      const struct dcp_trace_event *e);

/* Nothing is live: for a reading from the start. */
void dcp_blocks_restart(struct dcp_blocks *blocks);

/* Forgets everything. */
void dcp_blocks_release(struct dcp_blocks *blocks);

#endif
