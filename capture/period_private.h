/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of period finding only. */
#ifndef DCP_CAPTURE_PERIOD_PRIVATE_H
#define DCP_CAPTURE_PERIOD_PRIVATE_H

#include "capture/period.h"

/* A list of lists in one array: list i is items[start[i]] up to
 * items[start[i + 1]]. */
struct dcp_lists {
    uint32_t *start, *items;
};

/* The end of a log, calls [from, call_count), as a sequence of work: launches,
 * copies, fills and opaque calls. A *position* counts these. An *object* is a
 * place (block, offset) in a lasting block: one that lives through at least
 * half of the window and is touched over a quarter of it. */
struct dcp_walk {
    const struct dcp_log *log;
    struct dcp_arena arena;
    uint32_t from, count;
    uint32_t *call;      /* by position: index in the log */
    uint64_t *shape;     /* by position: dcp_call_key without references */
    uint8_t *lasting;    /* by buffer */
    uint32_t *first, *last; /* by buffer: position + 1 of the touch; 0: none */
    uint32_t object_count;
    uint32_t *object_buffer;
    uint64_t *object_offset;
    struct dcp_lists refs;    /* by position: objects in order of slot */
    struct dcp_lists touches; /* by object: positions, rising, each once */
    uint32_t key_count;
    uint32_t *key;            /* by position: number of (shape, first object) */
    struct dcp_lists places;  /* by key: positions */
    /* After each position: blocks that do not last and were touched before
     * and will be touched again; their bytes. */
    uint32_t *carried;
    uint64_t *carried_bytes;
    uint32_t carried_max;
    uint64_t carried_bytes_max;
    uint64_t steps;
    bool nomem;         /* dcp_walk_returns could not tell */
};

/* --- period_walk.c --- */
enum dcp_status dcp_walk_fill(struct dcp_walk *walk, const struct dcp_log *log,
                              uint32_t from);
void dcp_walk_release(struct dcp_walk *walk);

/* How much lives across the point after `position`, as a share of the
 * maximum: 0 to 1. */
double dcp_walk_carried(const struct dcp_walk *walk, uint32_t position);

/* True when the host waits after `position`, before any further work. */
bool dcp_walk_waits(const struct dcp_walk *walk, uint32_t position);

/* True when many of the blocks allocated in calls [begin, end) are never freed:
 * the program is building something, layer by layer, and not iterating. */
bool dcp_walk_builds(const struct dcp_walk *walk, uint32_t begin,
                     uint32_t end);

/* True when most touches of older blocks in positions [middle, end) are of
 * blocks touched in [begin, middle) as well: those are iterations, not layers
 * with weights of their own. */
bool dcp_walk_returns(struct dcp_walk *walk, uint32_t begin, uint32_t middle,
                      uint32_t end);

/* --- period_mark.c --- */
/* A launch that recurs. */
struct dcp_mark {
    const uint32_t *at; /* positions, rising */
    uint32_t count;     /* 0: there is none */
    uint32_t near;      /* what counts as near, in positions */
    uint32_t before, after; /* the same to each side */
    double share;       /* of the lasting objects that speak for it */
};

/* The mark that speaks loudest for an update, seen at least `repeats` times.
 * `close`: by objects that come thick near it, elsewhere or not. `scratch`:
 * room for as many numbers as there are positions, objects and buffers. */
enum dcp_status dcp_mark_find(struct dcp_walk *walk, uint32_t repeats,
                              uint32_t min_calls, bool close,
                              uint32_t *scratch, struct dcp_mark *best);

/* True when the object is touched near (nearly) every mark and (nearly)
 * nowhere else. *first and *last: where, from the last mark but one. */
bool dcp_mark_keeps(struct dcp_walk *walk, const struct dcp_mark *mark,
                    uint32_t object, int64_t *first, int64_t *last);

/* --- period_anchor.c --- */
/* Positions after which iterations end, found by the update. *count is 0 when
 * there is no update, or when it was not seen often enough: then *pending is
 * set. `ends` is in the walk's arena. */
enum dcp_status dcp_anchor_find(struct dcp_walk *walk, uint32_t repeats,
                                uint32_t min_calls, uint32_t **ends,
                                uint32_t *count, struct dcp_anchor *anchor,
                                bool *pending);

/* --- period_strict.c --- */
/* The same by strict repetition of shapes at the end of the walk. */
enum dcp_status dcp_strict_find(struct dcp_walk *walk, uint32_t repeats,
                                uint32_t min_calls, uint32_t **ends,
                                uint32_t *count);

#endif
