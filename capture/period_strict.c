/* SPDX-License-Identifier: Apache-2.0 */
/* Strict repetition: the smallest period with which the shapes at the end of
 * the log repeat, for programs in which no update can be told. */
#include "config.h"

#include "capture/period_private.h"

#include <string.h>

enum { TAILS = 5 }; /* ends tried: all, 7/8, ... 4/8 of the log */
#define CARRIED_LIMIT 0.1

struct run {
    uint32_t begin, end; /* positions: shape[i] is shape[i - period] */
    uint32_t period;
};

/* z[p] = how far the sequence read backwards from `end` agrees with itself
 * moved by p: one pass, since what is known of earlier p is used again. */
static void
agree_fill(struct dcp_walk *walk, uint32_t end, uint32_t *z)
{
    const uint64_t *last = walk->shape + end - 1;
    uint32_t left = 0, right = 0;

    z[0] = end;
    for (uint32_t p = 1; p < end; p++) {
        uint32_t n = 0;
        if (p < right) {
            n = z[p - left];
            if (n > right - p)
                n = right - p;
        }
        while (p + n < end && *(last - n) == *(last - p - n))
            n++;
        z[p] = n;
        if (p + n > right) {
            left = p;
            right = p + n;
        }
    }
    walk->steps += 2u * end;
}

/* Layers of a model have the same shapes, but touch other objects. */
static bool
is_same_work(struct dcp_walk *walk, const struct run *run)
{
    uint32_t end = walk->call[run->end - 1 - run->period];
    uint32_t launches = 0;

    for (uint32_t i = run->end - run->period; i < run->end; i++)
        launches += walk->log->calls[walk->call[i]].op == DCP_CALL_LAUNCH;
    return launches &&
           dcp_walk_returns(walk, run->end - 2 * run->period,
                            run->end - run->period, run->end) &&
           !dcp_walk_builds(walk, walk->call[run->begin], end);
}

static bool
find_run(struct dcp_walk *walk, uint32_t end, uint32_t repeats,
         uint32_t min_calls, uint32_t *z, struct run *run)
{
    agree_fill(walk, end, z);
    for (uint32_t p = min_calls; p <= end / repeats; p++) {
        uint32_t length = z[p] + p;
        if (length < repeats * p || length < end / 2)
            continue;
        *run = (struct run){end - length, end, p};
        if (is_same_work(walk, run))
            return true;
    }
    return false;
}

/* Where in the period to cut: where least is carried over, best before a host
 * wait, else at the run's own beginning. */
static uint32_t
find_phase(const struct dcp_walk *walk, const struct run *run)
{
    uint32_t base = run->begin, best = run->period - 1;
    bool best_waits = false;
    double least = 2;

    for (uint32_t d = 0; d < run->period; d++) {
        double share = dcp_walk_carried(walk, base + d);
        bool waits = dcp_walk_waits(walk, base + d);
        if (share > least ||
            (share == least && (best_waits || !waits) && d != run->period - 1))
            continue;
        if (share == least && d == run->period - 1 && best_waits)
            continue;
        least = share;
        best = d;
        best_waits = waits;
    }
    return best;
}

enum dcp_status
dcp_strict_find(struct dcp_walk *walk, uint32_t repeats, uint32_t min_calls,
                uint32_t **ends, uint32_t *count)
{
    uint32_t *z = dcp_arena_alloc(&walk->arena, (walk->count + 1) * sizeof *z);
    struct run run = {0};

    *count = 0;
    if (!z)
        return DCP_NOMEM;
    for (uint32_t i = 0; i < TAILS && !run.period; i++) {
        uint32_t end = walk->count - (uint32_t)((uint64_t)walk->count * i / 8);
        if (end >= repeats * min_calls &&
            !find_run(walk, end, repeats, min_calls, z, &run))
            run.period = 0;
    }
    if (!run.period)
        return DCP_OK;
    uint32_t most = (run.end - run.begin) / run.period + 2, n = 0;
    uint32_t *end = dcp_arena_alloc(&walk->arena, most * sizeof *end);
    if (!end)
        return DCP_NOMEM;
    if (run.begin)
        end[n++] = run.begin - 1;
    uint32_t at = run.begin + find_phase(walk, &run);
    if (at + 1 != run.begin + run.period)
        n = 0;
    for (; at < run.end; at += run.period)
        end[n++] = at;
    for (uint32_t i = 0; i + 1 < n; i++)
        if (dcp_walk_carried(walk, end[i]) > CARRIED_LIMIT)
            return DCP_OK;
    *ends = end;
    *count = n;
    return DCP_OK;
}
