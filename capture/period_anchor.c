/* SPDX-License-Identifier: Apache-2.0 */
/* From marks of the update (period_mark.c) to the ends of iterations. */
#include "config.h"

#include "capture/period_private.h"

#include <stdlib.h>
#include <string.h>

enum { WEAK_REPEATS = 6 };
#define WEAK_SHARE 0.23 /* of lasting objects that the update alone touches */
#define CLOSE_SHARE 0.5 /* ... that come thick at the update without states */

static int
by_number(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return (x > y) - (x < y);
}

/* How far after the mark the objects that keep near it are touched, leaving
 * out stragglers: objects of the next forward pass may keep near as well. */
static uint32_t
update_tail(struct dcp_walk *walk, const struct dcp_mark *mark,
            uint32_t *scratch)
{
    uint32_t count = 0, tail = 0;
    int64_t first, last;

    for (uint32_t o = 0; o < walk->object_count; o++)
        if (dcp_mark_keeps(walk, mark, o, &first, &last) && last > 0)
            scratch[count++] = (uint32_t)last;
    qsort(scratch, count, sizeof *scratch, by_number);
    uint32_t gap = mark->near / 2 > 3 ? mark->near / 2 : 3;
    for (uint32_t i = 0; i < count && scratch[i] - tail <= gap; i++)
        tail = scratch[i];
    return tail;
}

/* True when the launches of `key` follow those of the mark one by one, soon,
 * and with no more carried over. */
static bool
follows(const struct dcp_walk *walk, const struct dcp_mark *mark, uint32_t key)
{
    const uint32_t *at = walk->places.items + walk->places.start[key];

    if (walk->places.start[key + 1] - walk->places.start[key] != mark->count ||
        walk->log->calls[walk->call[at[0]]].op != DCP_CALL_LAUNCH)
        return false;
    for (uint32_t i = 0; i < mark->count; i++)
        if (at[i] <= mark->at[i] || at[i] - mark->at[i] > mark->near ||
            walk->carried[at[i]] > walk->carried[mark->at[i]])
            return false;
    return true;
}

/* Moves the mark towards the last launch of the update. */
static void
advance(struct dcp_walk *walk, uint32_t *scratch, struct dcp_mark *mark)
{
    for (int round = 0; round < 64; round++) {
        uint32_t at = mark->at[mark->count - 1];
        uint32_t tail = update_tail(walk, mark, scratch);
        for (; tail; tail--) {
            uint32_t next = at + tail;
            if (next < walk->count &&
                walk->refs.start[next] < walk->refs.start[next + 1] &&
                follows(walk, mark, walk->key[next]))
                break;
        }
        if (!tail)
            return;
        uint32_t key = walk->key[at + tail];
        mark->at = walk->places.items + walk->places.start[key];
    }
}

/* How far before the last mark but one less is carried over than anywhere
 * soon after it; 0: nowhere. The mark is then a launch of the forward pass,
 * which keeps near to the update before it. */
static uint32_t
lower_before(const struct dcp_walk *walk, const struct dcp_mark *mark)
{
    uint32_t at = mark->at[mark->count - 2], back = 0;
    double least = 2;

    for (uint32_t d = 0; d <= mark->near && at + d < walk->count; d++)
        if (dcp_walk_carried(walk, at + d) < least)
            least = dcp_walk_carried(walk, at + d);
    for (uint32_t d = 1; d <= mark->near && d <= at; d++) {
        if (dcp_walk_carried(walk, at - d) >= least)
            continue;
        least = dcp_walk_carried(walk, at - d);
        back = d;
    }
    return back;
}

/* True when the launches of `key` come one by one soon before the marks, the
 * first of which may have none. */
static bool
precedes(const struct dcp_walk *walk, const struct dcp_mark *mark, uint32_t key)
{
    const uint32_t *at = walk->places.items + walk->places.start[key];
    uint32_t count = walk->places.start[key + 1] - walk->places.start[key];

    if ((count != mark->count && count + 1 != mark->count) ||
        walk->log->calls[walk->call[at[0]]].op != DCP_CALL_LAUNCH)
        return false;
    for (uint32_t i = 1; i <= count; i++) {
        uint32_t before = at[count - i], after = mark->at[mark->count - i];
        if (before >= after || after - before > mark->near)
            return false;
    }
    return true;
}

/* Moves a mark that lies in the forward pass back into the update. False when
 * there is no way. */
static bool
retreat(struct dcp_walk *walk, struct dcp_mark *mark)
{
    uint32_t back = lower_before(walk, mark);

    if (back == 0)
        return true;
    for (uint32_t d = back; d <= mark->near; d++) {
        uint32_t at = mark->at[mark->count - 2];
        if (d > at || walk->refs.start[at - d] == walk->refs.start[at - d + 1])
            continue;
        uint32_t key = walk->key[at - d];
        if (!precedes(walk, mark, key))
            continue;
        mark->at = walk->places.items + walk->places.start[key];
        mark->count = walk->places.start[key + 1] - walk->places.start[key];
        return mark->count >= 2;
    }
    return false;
}

/* The distance from mark `i` to the best place to cut: where least is carried
 * over; among such places the first before a host wait, else the first past
 * the update, else the last (its end may be taken too far out). */
static uint32_t
cut_after(struct dcp_walk *walk, const struct dcp_mark *mark, uint32_t i,
          uint32_t tail)
{
    uint32_t at = mark->at[i], reach = tail + mark->near, best = 0;
    double least = 2;

    if (reach >= walk->count - at)
        reach = walk->count - at - 1;
    for (uint32_t d = 0; d <= reach; d++) {
        double share = dcp_walk_carried(walk, at + d);
        if (share > least || (share == least && best >= tail))
            continue;
        least = share;
        best = d;
    }
    for (uint32_t d = 0; d < best; d++)
        if (dcp_walk_carried(walk, at + d) <= least &&
            dcp_walk_waits(walk, at + d))
            return d;
    walk->steps += reach;
    return best;
}

/* One distance for all marks where the work there has the same shape; a last
 * mark that is too close to the end of the log goes. */
static void
settle_ends(const struct dcp_walk *walk, struct dcp_mark *mark, uint32_t *delay,
            uint32_t *scratch)
{
    uint32_t mode = 0, votes = 0;

    memcpy(scratch, delay, mark->count * sizeof *scratch);
    qsort(scratch, mark->count, sizeof *scratch, by_number);
    for (uint32_t i = 0, run = 0; i < mark->count; i++) {
        run = i && scratch[i] == scratch[i - 1] ? run + 1 : 1;
        if (run > votes) {
            votes = run;
            mode = scratch[i];
        }
    }
    if (mark->at[mark->count - 1] + mode >= walk->count)
        mark->count--;
    uint64_t shape = 0;
    for (uint32_t i = 0; i < mark->count; i++)
        if (delay[i] == mode)
            shape = walk->shape[mark->at[i] + mode];
    for (uint32_t i = 0; i < mark->count; i++) {
        uint32_t at = mark->at[i] + mode;
        if (walk->shape[at] == shape)
            delay[i] = mode;
    }
    scratch[0] = mode;
}

static void
anchor_fill(const struct dcp_walk *walk, const struct dcp_mark *mark,
            uint32_t delay, struct dcp_anchor *anchor)
{
    uint32_t at = mark->at[mark->count - 1];
    const struct dcp_call *call = &walk->log->calls[walk->call[at]];

    anchor->key = walk->shape[at];
    anchor->delay = delay;
    for (uint32_t i = 0; i < call->ref_count; i++) {
        if (!walk->lasting[call->refs[i].buffer])
            continue;
        anchor->block = walk->log->buffers[call->refs[i].buffer].block;
        anchor->offset = call->refs[i].offset;
        anchor->slot = call->refs[i].slot;
        break;
    }
}

/* True when the object is touched within positions (after, until]. */
static bool
is_touched(const struct dcp_walk *walk, uint32_t object, uint32_t after,
           uint32_t until)
{
    for (uint32_t i = walk->touches.start[object + 1];
         i > walk->touches.start[object]; i--)
        if (walk->touches.items[i - 1] <= until)
            return walk->touches.items[i - 1] > after;
    return false;
}

/* Of the lasting objects that the last iteration touches, the share that is
 * touched in the last stretch before the ends and nowhere else. Around the
 * border of two accumulation steps the same weights are touched on both sides;
 * states are touched before it only. */
static double
share_before(struct dcp_walk *walk, const struct dcp_mark *mark,
             const uint32_t *ends)
{
    struct dcp_mark end = {
        .at = ends, .count = mark->count, .before = 2 * mark->near};
    uint32_t last = mark->count - 1, count = 0, all = 0;
    int64_t from, to;

    if (mark->count < 2)
        return 0;
    for (uint32_t o = 0; o < walk->object_count; o++) {
        if (!is_touched(walk, o, ends[last - 1], ends[last]))
            continue;
        all++;
        count += dcp_mark_keeps(walk, &end, o, &from, &to);
    }
    return all ? (double)count / all : 0;
}

/* One way to find the ends of iterations: by states, or (`close`) by where
 * parameters come thickest. mark->count is 0 when there is none. */
static enum dcp_status
try_marks(struct dcp_walk *walk, uint32_t repeats, uint32_t min_calls,
          bool close, uint32_t *scratch, uint32_t *ends, struct dcp_mark *mark,
          struct dcp_anchor *anchor)
{
    enum dcp_status status =
        dcp_mark_find(walk, repeats, min_calls, close, scratch, mark);

    if (status || mark->count == 0)
        return status;
    if (!retreat(walk, mark)) {
        mark->count = 0;
        return DCP_OK;
    }
    advance(walk, scratch, mark);
    uint32_t tail = update_tail(walk, mark, scratch);
    for (uint32_t i = 0; i < mark->count; i++)
        ends[i] = cut_after(walk, mark, i, tail);
    settle_ends(walk, mark, ends, scratch);
    anchor_fill(walk, mark, scratch[0], anchor);
    for (uint32_t i = 0; i < mark->count; i++)
        ends[i] += mark->at[i];
    if (!close)
        mark->share = share_before(walk, mark, ends);
    else if (mark->share < CLOSE_SHARE)
        mark->share = 0;
    return DCP_OK;
}

/* True when what follows the last end is made of work that came before: not a
 * first update after many accumulation steps. */
static bool
is_tail_known(const struct dcp_walk *walk, uint32_t last)
{
    uint32_t known = 0, count = 0;

    for (uint32_t i = last + 1; i < walk->count; i++) {
        known += walk->places.items[walk->places.start[walk->key[i]]] <= last;
        count++;
    }
    return known * 4 >= count * 3;
}

/* Weak marks have to be seen more often: in a first iteration that is not
 * over, accumulation steps look like iterations without states. */
static bool
is_enough(const struct dcp_walk *walk, const struct dcp_mark *mark,
          const uint32_t *ends, uint32_t repeats, bool strong)
{
    if (strong)
        return mark->count > repeats;
    return mark->count > WEAK_REPEATS * repeats &&
           is_tail_known(walk, ends[mark->count - 1]);
}

enum dcp_status
dcp_anchor_find(struct dcp_walk *walk, uint32_t repeats, uint32_t min_calls,
                uint32_t **ends, uint32_t *count, struct dcp_anchor *anchor,
                bool *pending)
{
    size_t room =
        (size_t)walk->count + walk->object_count + walk->log->buffer_count + 1;
    uint32_t *scratch = dcp_arena_alloc(&walk->arena, room * sizeof *scratch);
    struct dcp_mark mark = {0};
    bool strong = false;

    *count = 0;
    *pending = false;
    if (!scratch)
        return DCP_NOMEM;
    for (int close = 0; close < 2 && !strong; close++) {
        uint32_t *end =
            dcp_arena_alloc(&walk->arena, (walk->count + 1) * sizeof *end);
        struct dcp_mark other;
        struct dcp_anchor found = {0};
        if (!end || try_marks(walk, repeats, min_calls, close, scratch, end,
                              &other, &found))
            return DCP_NOMEM;
        strong = other.count && other.share >= WEAK_SHARE;
        if (other.count == 0 || (mark.count && !strong))
            continue;
        mark = other;
        *anchor = found;
        *ends = end;
    }
    *pending = mark.count && !is_enough(walk, &mark, *ends, repeats, strong);
    *count = *pending ? 0 : mark.count;
    return DCP_OK;
}

bool
dcp_anchor_is(const struct dcp_anchor *anchor, const struct dcp_call *call,
              const struct dcp_log *log)
{
    if (!anchor->key || dcp_call_key(call, NULL) != anchor->key)
        return false;
    for (uint32_t i = 0; i < call->ref_count; i++) {
        const struct dcp_ref *ref = &call->refs[i];
        if (ref->slot != anchor->slot)
            continue;
        if (ref->offset != anchor->offset)
            return false;
        return log ? log->buffers[ref->buffer].block == anchor->block
                   : ref->buffer == (uint32_t)anchor->block;
    }
    return false;
}
