/* SPDX-License-Identifier: Apache-2.0 */
/* The life of one process: watch -> record -> follow, and off when anything
 * is not as it should be. One session a process; one lock guards it all. */
#ifndef DCP_REPLAY_SESSION_H
#define DCP_REPLAY_SESSION_H

#include "capture/period.h"
#include "capture/record.h"
#include "replay/lower.h"
#include "replay/trie.h"
#include "src/dc_config.h"
#include "src/lock.h"
#include "src/trace.h"

#include <stdatomic.h>

enum dcp_phase {
    DCP_PHASE_WATCH,  /* nothing but the trace */
    DCP_PHASE_RECORD, /* calls are issued and logged for analysis */
    DCP_PHASE_FOLLOW, /* calls are compared with the tree, and swallowed */
    DCP_PHASE_OFF,    /* hooks pass everything through */
};

/* What happened since the last iteration border. */
struct dcp_pass {
    uint64_t number, begin_ns;
    uint64_t calls;      /* that have a place in the iteration */
    uint64_t swallowed;
    uint64_t updates;    /* graph nodes whose values changed */
    uint64_t launches;   /* graphs launched */
    uint64_t eager;      /* foldable calls that were issued in place */
    uint64_t work;       /* foldable calls */
    const char *reason;  /* first thing that kept it from being followed */
    uint32_t position;   /* calls into the iteration where that was */
};

struct dcp_session {
    struct dcp_lock lock;
    _Atomic int phase;        /* enum dcp_phase */
    struct dcp_config config;
    uint64_t budget;          /* device bytes; 0: no limit */
    struct dcp_trace *trace;
    struct dcp_trie trie;
    struct dcp_node *cursor;  /* where in the tree */
    bool odd;                 /* this pass is no whole iteration */
    bool leaf_steady;         /* the leaf may be built at its first visit */
    struct dcp_node *leaf;    /* set at a border until it has been dealt with */
    struct dcp_segment *_Atomic pending; /* written under the lock */
    uint32_t pending_count;   /* calls of it that were swallowed */
    _Atomic int owed;         /* an error that a next call has to give */
    _Atomic uint32_t activity;
    atomic_bool plainly;      /* following, and no capture is open */
    _Atomic int captures;     /* captures of the program's own that are open */
    CUcontext context;
    uint32_t thread_ids;

    /* Iteration borders: after the anchor, a launch that each iteration makes
     * once; without one, at every host wait. */
    struct dcp_anchor anchor;
    bool steady;              /* iterations repeat: build at the first visit */
    uint32_t anchor_left;     /* work calls until the border, 0: not counting */
    bool border_at_wait;      /* the border is at the next host wait */
    bool border_due;          /* the border is before the next call */

    struct dcp_pass pass;
    uint64_t iterations, followed;
    uint64_t first_followed;  /* number of the iteration; 0: none yet */
    uint64_t own_ns;          /* spent in analysis and building so far */
    uint32_t graphs;          /* variants built */
    uint64_t window_begin, window_followed; /* iterations, since last judged */
    uint32_t relearned;       /* times that recording began again */
    uint32_t swept;           /* nodes when eviction last looked */
};

extern struct dcp_session dcp_session;

/* Called before the program's first cuInit reaches the driver: reads the
 * configuration, ends the process with status 2 on a bad one, and installs
 * the sink. */
void dcp_session_begin(void);

/* Takes the session's lock unless this thread holds it; whether it was taken is
 * what leave wants to know. */
bool dcp_session_enter(void);
void dcp_session_leave(bool entered);

/* Says anew whether calls may take a short way: while following, outside
 * captures, and not between an iteration's last call and the next. */
static inline void
dcp_session_plainly(struct dcp_session *session)
{
    bool plainly = atomic_load(&session->phase) == DCP_PHASE_FOLLOW &&
                   !atomic_load(&session->captures) && !session->border_due;

    atomic_store_explicit(&session->plainly, plainly, memory_order_relaxed);
}

/* Installs the sink: recording begins. */
void dcp_session_start(void);

/* Turns the library into a pass-through for good: what was swallowed is
 * issued, one line is logged. Caller holds the lock. */
void dcp_session_off(const char *why);

/* Waits for the device, lets the heap give back what it does not use, and makes
 * the planned range. Caller holds the lock; nothing is held back. */
bool dcp_session_make_room(uint64_t bytes);

/* --- follow.c: caller holds the lock ------------------------------------- */

/* Issues what was swallowed and not yet launched, in order. The first error,
 * which belongs to the calls swallowed. `why` goes to the report. */
CUresult dcp_follow_flush(struct dcp_session *session, const char *why);

/* The same where there is no call of the program to give the error to: one of
 * its next calls gets it, as for work that fails after it was enqueued. */
void dcp_follow_flush_late(struct dcp_session *session, const char *why);

/* One call of the program. True: swallowed, *result set. */
bool dcp_follow_call(struct dcp_session *session, const struct dcp_view *view,
                     CUresult *result, struct dcp_node **node);

/* The path ends here; the next call begins an iteration. What was held back
 * must have been issued. */
void dcp_follow_border(struct dcp_session *session);

/* --- warm.c: caller holds the lock --------------------------------- */

/* Logs one call during the warm-up. The call's index, or UINT32_MAX. `*watched`
 * is set when the call is part of an experiment: its result must be told. */
uint32_t dcp_warm_append(const struct dcp_view *view, bool *watched);

/* The outcome of a logged allocation or a failure. */
void dcp_warm_result(uint32_t index, const struct dcp_view *view,
                     CUresult result, bool watched);

/* Forgets the log and begins a new one (blocks that live now are "older"). */
void dcp_warm_restart(void);

/* Releases the log: it is not needed any more. */
void dcp_warm_end(void);

/* True when the log has grown so long without a host wait that it should be
 * searched all the same. */
bool dcp_warm_due(void);

/* True when the node's call is the session's anchor. */
bool dcp_warm_is_anchor(const struct dcp_session *session,
                        const struct dcp_node *node);

/* Looks for the iteration; true when it was found (the session's anchor is
 * set) or given up (borders are all waits). */
bool dcp_warm_analyse(struct dcp_session *session);

/* --- build.c: caller holds the lock, the device is idle ------------------ */

/* Builds graphs and addresses for the path that ends at `leaf`. */
void dcp_build_path(struct dcp_session *session, struct dcp_node *leaf);

/* Removes the variants used longest ago until the limits hold. */
void dcp_build_evict(struct dcp_session *session);

/* --- session_trace.c ------------------------------------------------------- */

/* START and CONFIG, at the program's cuInit. */
void dcp_session_trace_start(struct dcp_session *session, int rank, int world);

/* From now on each allocation and free of the heap is in the trace. */
void dcp_session_trace_heap(struct dcp_session *session);

/* The heap's number of the block that the calling thread allocated last, once;
 * 0 when there was none, or there is no trace. */
uint64_t dcp_session_trace_block(void);

/* DEVICE, once; a context is current. */
void dcp_session_trace_device(struct dcp_session *session);

/* One MEMORY record, and one more for peaks since the last; at an iteration
 * border. */
void dcp_session_trace_memory(struct dcp_session *session);

/* --- verify.c: caller holds the lock -------------------------------------- */

/* False when the segment's calls must not run twice. */
bool dcp_verify_can(const struct dcp_segment *segment);

/* Launches the segment and, from the same memory, issues its calls one by
 * one; the eager results stay. False when they differ. */
bool dcp_verify_segment(struct dcp_session *session, struct dcp_segment *segment,
                        CUresult *result);

#endif
