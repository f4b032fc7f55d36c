/* SPDX-License-Identifier: Apache-2.0 */
/* What the traces say, computed once and drawn by every view: per trace file
 * the program, its iterations, graphs, passes, kernels and call counts.
 * Memory over time is report_timeline.h. Large texts stay in the file and are
 * loaded when they are asked for. */
#ifndef DCP_SRC_REPORT_MODEL_H
#define DCP_SRC_REPORT_MODEL_H

#include "src/ir.h"
#include "src/report.h"
#include "src/trace_read.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct dcp_model_stack;
struct dcp_timeline;

struct dcp_model_iteration {
    uint64_t number, begin_ns, end_ns;
    uint64_t calls, swallowed, updates, launches;
    uint64_t variant; /* number of the graph, 0: none */
    bool followed;
};

/* Iterations that were not followed, by the reason given. */
struct dcp_model_reason {
    char *text;
    uint64_t count, first_number, first_position;
};

struct dcp_model_pass {
    char *name;
    uint64_t offset, time_ns, ns;
    bool changed, has_text;
};

struct dcp_model_graph {
    uint64_t number, offset, time_ns; /* offset of its GRAPH record */
    uint64_t nodes, segments, arena_bytes, build_ns;
    struct dcp_model_pass *passes;
    size_t pass_count, pass_room;
    uint64_t followed;    /* iterations that followed it */
    struct dcp_graph *ir; /* after the last pass; NULL: no or bad text */
    uint64_t *gpu_ns;     /* mean by node of ir, 0: not measured */
    uint64_t gpu_total;   /* of all nodes */
};

struct dcp_model_segment {
    uint64_t graph, first, last, nodes, build_ns, time_ns;
};

struct dcp_model_phase {
    uint64_t time_ns, phase;
};

struct dcp_model_call {
    char *symbol;
    uint64_t id, count, total_ns;
};

struct dcp_model_line {
    uint64_t time_ns, level;
    char *text;
};

/* One trace file. */
struct dcp_model_rank {
    struct dcp_trace_reader *reader;
    const char *path;
    char *label;      /* "rank 0", or "rank 0 (pid 17)" for a second process */
    unsigned index;    /* in the model */
    uint64_t rank, world, pid, start_ns, wall_ns, end_ns;
    char *program;    /* arguments joined by blanks; "" where unknown */
    char *device;
    char *config;     /* NULL: DC_CONFIG was not set */
    struct dcp_trace_DEVICE device_facts;
    enum dcp_trace_end end;
    char *end_message; /* why the trace is not whole; NULL: it is */
    long writer;       /* process that still writes it, 0: none */

    struct dcp_model_iteration *iterations;
    size_t iteration_count, iteration_room;
    struct dcp_model_reason *reasons; /* most frequent first */
    size_t reason_count, reason_room;
    struct dcp_model_graph *graphs;
    size_t graph_count, graph_room;
    struct dcp_model_segment *segments;
    size_t segment_count, segment_room;
    struct dcp_model_phase *phases;
    size_t phase_count, phase_room;
    struct dcp_model_call *calls; /* most time first */
    size_t call_count, call_room;
    struct dcp_model_line *lines; /* the first ones the library logged */
    size_t line_count, line_room;
    uint64_t line_total;
    uint64_t verify_equal, verify_unequal;
    char *verify_text; /* of the first that differed, or NULL */

    struct {
        uint64_t graph, node, ns, count;
    } *times; /* while reading: sums of NODE_TIME */
    size_t time_count, time_room;
    uint64_t kernel_count; /* different kernels the program launched */
    struct dcp_model_stack *stacks; /* by number */

    /* from the above */
    uint64_t followed, first_followed; /* index; iteration_count: none */
    uint64_t eager_ns, replayed_ns;    /* median step times, 0: none */
    uint64_t swallowed, updates, launches, replayed_calls;
    uint64_t library_ns; /* analysis before the first followed iteration */
    struct dcp_timeline *timeline;
};

struct dcp_model {
    struct dcp_model_rank *ranks;
    size_t rank_count, rank_room;
};

/* Reads a trace file, or every trace of a directory in order of rank. `rank`
 * not negative: that rank's only. Files that cannot be read are named on
 * stderr; dies when nothing is left. */
struct dcp_model *dcp_model_read(const char *path, long rank);

void dcp_model_destroy(struct dcp_model *model);

/* The graph of that number, or NULL. */
struct dcp_model_graph *
dcp_model_graph_find(const struct dcp_model_rank *rank, uint64_t number);

/* The IR text of a graph: as lifted (pass NULL), or after a pass. NULL when
 * the trace holds none. The caller frees. */
char *dcp_model_text(const struct dcp_model_rank *rank,
                     const struct dcp_model_graph *graph,
                     const struct dcp_model_pass *pass, size_t *length);

/* Frames of a call stack, one a line; NULL when unknown. */
const char *dcp_model_stack_text(const struct dcp_model_rank *rank,
                                 uint64_t stack);

/* When the rank's trace began, in microseconds after the first rank's. */
double dcp_model_base_us(const struct dcp_model *model,
                         const struct dcp_model_rank *rank);

/* The smallest value that at least half of the values do not exceed; 0 for
 * none. Sorts them. */
uint64_t dcp_median(uint64_t *values, size_t count);

#endif
