/* SPDX-License-Identifier: Apache-2.0 */
/* What the trace says about recorded iterations: their graphs, what passes
 * made of them, and which block of memory is what. Everything here does
 * nothing where there is no trace. Under the session's lock. */
#ifndef DCP_REPLAY_BUILD_TRACE_H
#define DCP_REPLAY_BUILD_TRACE_H

#include "capture/period.h"
#include "replay/path.h"
#include "replay/session.h"
#include "src/ir.h"

enum { DCP_TOLD_PASSES = 32 };

/* A graph on its way through the passes. What they made of it is told after
 * the graph itself, whose record carries what only the end knows. */
struct dcp_build_told {
    struct dcp_session *session;
    const struct dcp_path *path;
    uint32_t origin;   /* the path's call that is the graph's first */
    uint64_t begin;    /* when the build began */
    char *text;        /* IR as lifted */
    size_t bytes;
    struct dcp_told_pass {
        char *text;    /* name, NUL, IR */
        size_t bytes;
        bool changed;
        uint64_t ns;
    } pass[DCP_TOLD_PASSES];
    unsigned count;
};

/* Keeps the graph as it is now. */
void dcp_build_tell_begin(struct dcp_build_told *told,
                          const struct dcp_graph *graph);

/* A pass has run (dcp_pass_done; `told` is the user's pointer). */
void dcp_build_tell_pass(const char *name, bool changed, uint64_t ns,
                         const struct dcp_graph *graph, void *told);

/* Puts all of it into the trace: GRAPH, PASS, KERNEL, SEGMENT, NODE_TIME, and
 * for each block that the path met, BLOCK_USE and ROLE. */
void dcp_build_tell(struct dcp_build_told *told,
                    const struct dcp_graph *graph);

/* The roles of the blocks that lived in the iterations of the warm-up. */
void dcp_build_tell_warm(struct dcp_session *session,
                         const struct dcp_log *log,
                         const struct dcp_period *period);

#endif
