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
    uint32_t next = position + 1 < walk->count ? walk->call[position + 1]
                                               : log->call_count;

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

/* How often each key with a lasting object comes in positions [begin, end);
 * the most frequent such number among the keys, unless it is 1 or holds for
 * less than half of the keys. */
static uint32_t
common_count(const struct dcp_walk *walk, uint32_t begin, uint32_t end,
             uint32_t *times, uint32_t *votes)
{
    uint32_t keys = 0, best = 0;

    for (uint32_t i = begin; i < end; i++) {
        if (walk->refs.start[i] == walk->refs.start[i + 1])
            continue;
        uint32_t t = ++times[walk->key[i]];
        keys += t == 1;
        if (t > 1)
            votes[t - 1]--;
        votes[t]++;
    }
    for (uint32_t t = 1; t <= end - begin; t++)
        if (votes[t] > votes[best])
            best = t;
    return best > 1 && votes[best] * 2 >= keys ? best : 1;
}

/* Steps begin with the first of the keys that come `count` times, and each
 * holds nearly every such key once; a loop over shared weights does not. */
static bool
cut_steps(const struct dcp_walk *walk, uint32_t begin, uint32_t end,
          uint32_t count, const uint32_t *times, uint32_t *in_step,
          uint32_t *starts, uint32_t *last)
{
    uint32_t first = UINT32_MAX, step = 0, good = 0, bad = 0;

    for (uint32_t i = begin; i < end; i++) {
        uint32_t key = walk->key[i];
        if (walk->refs.start[i] == walk->refs.start[i + 1] ||
            times[key] != count)
            continue;
        if (first == UINT32_MAX)
            first = key;
        if (key == first)
            starts[step++] = i;
        *last = i;
        if (in_step[key]++ + 1 == step)
            good++;
        else
            bad++;
    }
    return step == count && bad * 8 <= good;
}

struct micro_scratch {
    uint32_t *times, *in_step; /* by key */
    uint32_t *votes;           /* by number of times */
    uint32_t *in_tail, *seen;  /* by buffer: the iteration or step, from 1 */
    uint32_t stamp;
};

/* How many blocks the calls of positions [begin, end) share with the tail. */
static uint32_t
count_shared(const struct dcp_walk *walk, uint32_t begin, uint32_t end,
             uint32_t tail_stamp, struct micro_scratch *scratch)
{
    uint32_t count = 0;

    scratch->stamp++;
    for (uint32_t i = begin; i < end; i++) {
        const struct dcp_call *call = &walk->log->calls[walk->call[i]];
        for (uint32_t r = 0; r < call->ref_count; r++) {
            uint32_t b = call->refs[r].buffer;
            count += scratch->in_tail[b] == tail_stamp &&
                     scratch->seen[b] != scratch->stamp;
            scratch->seen[b] = scratch->stamp;
        }
    }
    return count;
}

/* The number of leading steps that do not feed the update (an evaluation
 * before the step): they share with the work behind the last step's own calls
 * the parameters, but no gradients. `last` is the last position of those. */
static uint32_t
count_idle(const struct dcp_walk *walk, const uint32_t *starts,
           uint32_t count, uint32_t last, uint32_t end,
           struct micro_scratch *scratch)
{
    uint32_t tail = ++scratch->stamp, idle = 0;

    for (uint32_t i = last + 1; i < end; i++) {
        const struct dcp_call *call = &walk->log->calls[walk->call[i]];
        for (uint32_t r = 0; r < call->ref_count; r++)
            scratch->in_tail[call->refs[r].buffer] = tail;
    }
    uint32_t most = count_shared(walk, starts[count - 1], last + 1, tail,
                                 scratch);
    while (idle + 1 < count &&
           count_shared(walk, starts[idle], starts[idle + 1], tail, scratch) *
                   4 < most * 3)
        idle++;
    return idle;
}

static enum dcp_status
micro_fill(struct finder *f, uint32_t begin, uint32_t end,
           struct micro_scratch *scratch, struct dcp_micro *micro)
{
    struct dcp_walk *walk = &f->walk;

    for (uint32_t i = begin; i < end; i++)
        scratch->times[walk->key[i]] = scratch->in_step[walk->key[i]] = 0;
    memset(scratch->votes, 0, (end - begin + 2) * sizeof *scratch->votes);
    micro->count = 1;
    uint32_t count =
        common_count(walk, begin, end, scratch->times, scratch->votes);
    walk->steps += 2u * (end - begin);
    if (count == 1)
        return DCP_OK;
    uint32_t *starts = dcp_arena_alloc(f->arena, count * sizeof *starts);
    if (!starts)
        return DCP_NOMEM;
    uint32_t last = begin;
    if (!cut_steps(walk, begin, end, count, scratch->times, scratch->in_step,
                   starts, &last))
        return DCP_OK;
    uint32_t idle = count_idle(walk, starts, count, last, end, scratch);
    if (count - idle == 1)
        return DCP_OK;
    micro->count = count - idle;
    micro->starts = starts + idle;
    for (uint32_t i = 0; i < micro->count; i++)
        micro->starts[i] = walk->call[micro->starts[i]];
    return DCP_OK;
}

static enum dcp_status
fill_micros(struct finder *f)
{
    struct dcp_arena *arena = &f->walk.arena;
    size_t keys = f->walk.key_count + 1, buffers = f->log->buffer_count + 1;
    struct micro_scratch scratch = {
        .times = dcp_arena_alloc(arena, keys * sizeof *scratch.times),
        .in_step = dcp_arena_alloc(arena, keys * sizeof *scratch.in_step),
        .votes = dcp_arena_alloc(arena, (f->walk.count + 2) *
                                            sizeof *scratch.votes),
        .in_tail = dcp_arena_alloc(arena, buffers * sizeof *scratch.in_tail),
        .seen = dcp_arena_alloc(arena, buffers * sizeof *scratch.seen),
    };
    enum dcp_status status = DCP_OK;

    f->out->micros = dcp_arena_alloc(f->arena, f->end_count *
                                                   sizeof *f->out->micros);
    if (!scratch.times || !scratch.in_step || !scratch.votes ||
        !scratch.in_tail || !scratch.seen || !f->out->micros)
        return DCP_NOMEM;
    for (uint32_t i = 0; i + 1 < f->end_count && !status; i++)
        status = micro_fill(f, f->ends[i] + 1, f->ends[i + 1] + 1, &scratch,
                            &f->out->micros[i]);
    return status;
}

/* Iterations must be long enough; the first ends may lie in what came before
 * training. */
static bool
are_ends_good(struct finder *f)
{
    uint32_t good = 1;

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
        status = dcp_strict_find(walk, f->repeats, f->min_calls, &f->ends,
                                 &f->end_count);
    else
        status = dcp_anchor_find(walk, f->repeats, f->min_calls, &f->ends,
                                 &f->end_count, &f->out->anchor);
    if (!status && f->end_count && are_ends_good(f)) {
        *found = true;
        status = fill_borders(f);
        if (!status)
            status = fill_shapes(f);
        if (!status)
            status = fill_micros(f);
        if (!status)
            fill_cycle(f);
    } else {
        f->out->anchor = (struct dcp_anchor){0};
    }
    f->out->steps += walk->steps;
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
    for (int strict = 0; strict < 2 && !found; strict++) {
        uint32_t window = log->call_count;
        while (window / f.repeats >= f.min_calls && !status && !found) {
            status = find_in_window(&f, log->call_count - window, strict,
                                    &found);
            window = (uint32_t)((uint64_t)window * 7 / 10);
        }
    }
    if (status) {
        uint64_t steps = out->steps;
        *out = (struct dcp_period){.steps = steps};
    }
    return status;
}
