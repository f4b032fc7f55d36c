/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "capture/period_private.h"

#include <string.h>

enum { STREAMS_MAX = 64, CYCLE_MAX = 1024 };

struct finder {
    const struct dcp_log *log;
    uint32_t repeats, min_calls;
    struct dcp_walk walk;
    uint32_t *ends; /* positions after which iterations end */
    uint32_t end_count;
    bool pending; /* an update was seen, but too seldom */
    struct dcp_arena *arena;
    struct dcp_period *out;
};

/* The call index behind `position`: after the host waits and frees that follow
 * before any further work or allocation, so that most blocks of an iteration
 * are freed in it. */
static uint32_t
border_after(const struct dcp_walk *walk, uint32_t position, bool *waits)
{
    const struct dcp_log *log = walk->log;
    uint32_t border = walk->call[position] + 1;
    uint32_t next =
        position + 1 < walk->count ? walk->call[position + 1] : log->call_count;

    *waits = false;
    for (uint32_t i = border; i < next; i++) {
        enum dcp_call_op op = log->calls[i].op;
        if (op == DCP_CALL_ALLOC)
            break;
        if (op == DCP_CALL_WAIT)
            *waits = true;
        if (op == DCP_CALL_WAIT || op == DCP_CALL_FREE)
            border = i + 1;
    }
    return border;
}

static enum dcp_status
fill_borders(struct finder *f)
{
    uint32_t waits = 0;
    bool wait;

    f->out->borders =
        dcp_arena_alloc(f->arena, f->end_count * sizeof *f->out->borders);
    if (!f->out->borders)
        return DCP_NOMEM;
    for (uint32_t i = 0; i < f->end_count; i++) {
        f->out->borders[i] = border_after(&f->walk, f->ends[i], &wait);
        waits += wait;
    }
    f->out->anchor.wait = waits * 2 > f->end_count;
    return DCP_OK;
}

/* Each stream's work in order, whatever the order of the streams: threads
 * that feed different streams may overtake each other. */
static uint64_t
shape_of(struct dcp_walk *walk, uint32_t begin, uint32_t end)
{
    uint64_t stream[STREAMS_MAX], hash[STREAMS_MAX], sum = 0;
    uint32_t count = 0, s = 0;

    for (uint32_t i = begin; i < end; i++) {
        uint64_t handle = walk->log->calls[walk->call[i]].stream;
        if (s >= count || stream[s] != handle) {
            for (s = 0; s < count && stream[s] != handle; s++)
                ;
            if (s == count && count < STREAMS_MAX) {
                stream[count] = handle;
                hash[count++] = handle;
            }
            s = s < STREAMS_MAX ? s : STREAMS_MAX - 1;
        }
        hash[s] = (hash[s] ^ walk->shape[i]) * 0x9e3779b97f4a7c15u;
        hash[s] ^= hash[s] >> 29;
    }
    for (s = 0; s < count; s++)
        sum += hash[s] * 0xbf58476d1ce4e5b9u;
    walk->steps += end - begin;
    return sum;
}

static enum dcp_status
fill_shapes(struct finder *f)
{
    uint32_t n = f->end_count - 1;
    uint32_t places = 64, count = 0;

    while (places < 2 * (uint64_t)n)
        places *= 2;
    uint64_t *seen = dcp_arena_alloc(&f->walk.arena, places * sizeof *seen);
    uint32_t *number = dcp_arena_alloc(&f->walk.arena, places * sizeof *number);
    uint32_t *shapes = dcp_arena_alloc(f->arena, n * sizeof *shapes);
    if (!seen || !number || !shapes)
        return DCP_NOMEM;
    for (uint32_t i = 0; i < n; i++) {
        uint64_t hash = shape_of(&f->walk, f->ends[i] + 1, f->ends[i + 1] + 1);
        uint32_t at = hash & (places - 1);
        while (number[at] && seen[at] != hash)
            at = (at + 1) & (places - 1);
        if (!number[at])
            number[at] = ++count;
        seen[at] = hash;
        shapes[i] = number[at] - 1;
    }
    f->out->iterations = n;
    f->out->shapes = shapes;
    f->out->shape_count = count;
    return DCP_OK;
}

/* The smallest number of iterations after which the last ones repeat. */
static void
fill_cycle(struct finder *f)
{
    struct dcp_period *out = f->out;
    uint32_t n = out->iterations;

    for (uint32_t c = 1; c <= n / f->repeats && c <= CYCLE_MAX; c++) {
        uint32_t same = 0, wanted = (f->repeats - 1) * c;
        while (same < wanted &&
               out->shapes[n - 1 - same] == out->shapes[n - 1 - same - c])
            same++;
        if (same < wanted)
            continue;
        out->cycle = c;
        /* The frees behind the last border may be yet to come. */
        if (out->borders[n] == f->log->call_count && n > c)
            n--;
        out->length = out->borders[n] - out->borders[n - c];
        return;
    }
}

/* Iterations must be long enough; the first ends may lie in what came before
 * training. An end at the very end of the log counts if the host waits. */
static bool
are_ends_good(struct finder *f)
{
    uint32_t good = 1;

    if (f->ends[f->end_count - 1] + 1 == f->walk.count &&
        !dcp_walk_waits(&f->walk, f->walk.count - 1))
        f->end_count--;
    if (f->end_count == 0)
        return false;

    for (uint32_t i = f->end_count; i-- > 1; good++)
        if (f->ends[i] <= f->ends[i - 1] ||
            f->ends[i] - f->ends[i - 1] < f->min_calls)
            break;
    f->ends += f->end_count - good;
    f->end_count = good;
    if (good <= f->repeats ||
        dcp_walk_builds(&f->walk, f->walk.call[f->ends[0]],
                        f->walk.call[f->ends[good - 2]]))
        return false;
    for (uint32_t i = good - f->repeats; i < good; i++)
        if (i >= 2 && !dcp_walk_returns(&f->walk, f->ends[i - 2] + 1,
                                        f->ends[i - 1] + 1, f->ends[i] + 1))
            return false;
    return true;
}

static enum dcp_status
find_in_window(struct finder *f, uint32_t from, bool strict, bool *found)
{
    struct dcp_walk *walk = &f->walk;
    enum dcp_status status = dcp_walk_fill(walk, f->log, from);

    *found = false;
    if (status)
        return status;
    if (strict)
        status = dcp_strict_find(walk, 2 * f->repeats + 1, f->min_calls,
                                 &f->ends, &f->end_count);
    else
        status = dcp_anchor_find(walk, f->repeats, f->min_calls, &f->ends,
                                 &f->end_count, &f->out->anchor, &f->pending);
    if (!status && f->end_count && are_ends_good(f)) {
        *found = true;
        status = fill_borders(f);
        if (!status)
            status = fill_shapes(f);
        if (!status)
            fill_cycle(f);
    } else {
        f->out->anchor = (struct dcp_anchor){0};
    }
    f->out->steps += walk->steps;
    if (walk->nomem)
        status = DCP_NOMEM;
    dcp_walk_release(walk);
    return status;
}

enum dcp_status
dcp_period_find(const struct dcp_log *log,
                const struct dcp_period_options *options,
                struct dcp_period *out, struct dcp_arena *arena)
{
    struct finder f = {.log = log, .arena = arena, .out = out};
    enum dcp_status status = DCP_OK;
    bool found = false;

    f.repeats = options && options->repeats ? options->repeats : 2;
    f.min_calls = options && options->min_calls ? options->min_calls : 4;
    *out = (struct dcp_period){0};
    /* What came before training can be long: ever shorter ends of the log are
     * looked at, so that "lasting" comes to mean what lasts in training. */
    for (int strict = 0; strict < 2 && !found && !f.pending; strict++) {
        uint32_t window = log->call_count;
        while (window / f.repeats >= f.min_calls && !status && !found &&
               !f.pending) {
            status =
                find_in_window(&f, log->call_count - window, strict, &found);
            window = (uint32_t)((uint64_t)window * 7 / 10);
        }
    }
    if (status) {
        uint64_t steps = out->steps;
        *out = (struct dcp_period){.steps = steps};
    }
    return status;
}
