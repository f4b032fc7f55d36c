/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the training iterations in a recorded log. */
#ifndef DCP_CAPTURE_PERIOD_H
#define DCP_CAPTURE_PERIOD_H

#include "src/arena.h"
#include "src/status.h"

#include "capture/call.h"

struct dcp_period_options {
    uint32_t repeats;   /* full iterations wanted; 0: 2 */
    uint32_t min_calls; /* launches, copies and fills an iteration has at
                           least; 0: 4 */
};

/* A launch that happens once in every iteration, whatever its shape: cuts
 * iterations while the program runs. */
struct dcp_anchor {
    uint64_t key;   /* dcp_call_key of it; 0: none was found */
    uint64_t block; /* its first reference to a lasting block: the block's id,
                       offset and slot */
    uint64_t offset;
    uint32_t slot;
    /* The border comes after the delay-th launch, copy or fill that follows
     * (0: right after the anchor) and the waits and frees behind that: just
     * before the next work or allocation. */
    uint32_t delay;
    bool wait;      /* the host usually waits there: the GPU is idle */
};

struct dcp_period {
    uint32_t length;     /* calls in the last period; 0: the iterations do not
                            repeat in a regular order */
    uint32_t cycle;      /* iterations in a period, 0: no period */
    uint32_t iterations; /* full ones; 0: nothing was found */
    uint32_t *borders;   /* iterations + 1 call indices: iteration i is calls
                            [borders[i], borders[i + 1]). When the last one is
                            the log's end, waits and frees may be missing */
    uint32_t *shapes;    /* per iteration: equal numbers mean the same launches,
                            copies and fills in the same order on each stream */
    uint32_t shape_count;
    struct dcp_anchor anchor;
    uint64_t steps;      /* work done, in visits of a call or a reference */
};

/* Finds iterations in a log that begins and ends anywhere. Iterations are cut
 * after the update: the run of launches that alone touches the most lasting
 * blocks (optimizer states), at the point where the fewest other blocks carry
 * data over, moved behind a host wait that follows at once. Programs without
 * such a run (no states, inference) are cut by strict repetition. Allocations,
 * frees, events and waits may differ from one iteration to the next.
 *
 * `repeats` full iterations are enough where states are a good part of what the
 * program keeps; where not (only the last layer is trained, inference) about
 * six times as many are wanted, since the accumulation steps of a first
 * iteration look the same. More steps than that, with the host waiting after
 * each, may be taken for iterations.
 *
 * DCP_OK with iterations 0 when there is nothing to be found yet; DCP_NOMEM.
 * What `out` leads to lies in `arena`; scratch memory is mapped and given back.
 * `options` may be NULL. Time n log n in calls and references. */
enum dcp_status dcp_period_find(const struct dcp_log *log,
                                const struct dcp_period_options *options,
                                struct dcp_period *out,
                                struct dcp_arena *arena);

/* The shape of a call: operation, kernel, stream, places of a copy; with a
 * log also the first reference to a block that is older than the log (NULL:
 * without). Never 0. Comparable within one process only. */
uint64_t dcp_call_key(const struct dcp_call *call, const struct dcp_log *log);

/* True when `call` (of `log`, which may be another log of the same process) is
 * the period's anchor. With `log` NULL the buffer numbers of the call's
 * references are the low 32 bits of block ids, as the recorder writes them. */
bool dcp_anchor_is(const struct dcp_anchor *anchor,
                   const struct dcp_call *call, const struct dcp_log *log);

#endif
