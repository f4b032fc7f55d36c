/* SPDX-License-Identifier: Apache-2.0 */
/* Memory over time, by role. Outside followed iterations it is the sum of the
 * ALLOC and FREE records; within, the program's own allocations are planned
 * and leave no record, so the graph's live ranges are laid over the
 * iteration's time. Blocks whose role is not recorded take the role of blocks
 * that the same call stack made in the same size. */
#ifndef DCP_SRC_REPORT_TIMELINE_H
#define DCP_SRC_REPORT_TIMELINE_H

#include "src/ir.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct dcp_model_graph;
struct dcp_model_rank;

enum { DCP_TIMELINE_SLOTS = 1000 };

struct dcp_level {
    uint64_t role[DCP_ROLE_COUNT]; /* bytes on the device */
    uint64_t total;                /* their sum */
    uint64_t host;                 /* bytes that lie in host memory instead */
};

/* One slice of time. The level is the highest in it. */
struct dcp_timeline_slot {
    struct dcp_level level;
    uint64_t used, reserved; /* as the library sampled them; carried on */
    struct dcp_level last;   /* at its end */
    bool seen;
};

/* Blocks and planned buffers that held memory at the peak, put together by
 * role and call stack. */
struct dcp_holder {
    uint8_t role;
    uint64_t stack, bytes, count, largest;
    const char *label; /* of a graph's buffer, or NULL */
};

/* How much is live within one iteration of a graph. */
struct dcp_curve_point {
    uint32_t node;
    double at; /* part of the iteration's time, 0 to 1 */
    struct dcp_level level;
};

struct dcp_curve {
    struct dcp_curve_point *points; /* levels change at each */
    size_t count;
    size_t peak;     /* index of the highest */
    bool timed;      /* by measured node times, else by count of nodes */
    size_t *few;     /* points that show its shape in few steps */
    size_t few_count;
};

struct dcp_timeline {
    uint64_t start_ns, slot_ns; /* width of a slot */
    size_t slot_count;
    struct dcp_timeline_slot slots[DCP_TIMELINE_SLOTS];
    struct dcp_level peak;
    uint64_t peak_ns;     /* time since start_ns */
    uint64_t peak_graph;  /* within an iteration that followed it; 0: not */
    uint32_t peak_node;
    struct dcp_holder *holders; /* at the peak, largest first */
    size_t holder_count;
    struct dcp_holder *spilled; /* what was put into host memory, at its most */
    size_t spilled_count;
    uint64_t host_peak, used_peak, reserved_peak;
    uint64_t blocks; /* allocated in all */
    struct dcp_curve *curves;       /* by index of the rank's graphs */
};

/* Computes it by reading the trace again. Dies when memory is out. */
struct dcp_timeline *dcp_timeline_fill(struct dcp_model_rank *rank);
void dcp_timeline_destroy(struct dcp_timeline *timeline, size_t graphs);

/* Fills `curve` from the graph's IR; nothing when it has none. */
void dcp_curve_fill(const struct dcp_model_graph *graph,
                    struct dcp_curve *curve);
void dcp_curve_release(struct dcp_curve *curve);

/* Where the buffers of a graph begin and end, by buffer; DCP_NONE: nowhere. */
struct dcp_ends {
    uint32_t *alloc, *free;
};

/* Dies when memory is out; `ends` is to be released. */
void dcp_ends_fill(const struct dcp_graph *ir, struct dcp_ends *ends);
void dcp_ends_release(struct dcp_ends *ends);

/* Whether the graph's own allocation of a buffer is live while `node` runs: a
 * buffer freed before its alloc is carried over from the last iteration. A
 * buffer with neither is a block of its own, and false here. */
bool dcp_ends_live(const struct dcp_ends *ends, uint32_t buffer,
                   uint32_t node);

#endif
