/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the update without knowing the period. Every launch that recurs and
 * touches a lasting block could be a mark of the update; a good mark has many
 * objects that are touched near it, each time, and nowhere else (optimizer
 * states), and soon after it little is carried over (the activations are
 * gone, the gradients used up). */
#include "config.h"

#include "capture/period_private.h"

#include <stdlib.h>
#include <string.h>

enum {
    DENSE_MARKS = 48,  /* candidates that touch most objects in one launch */
    SPREAD_MARKS = 48, /* further ones, evenly over the log */
    NEAR = 8,          /* "near" is a NEAR-th of the distance of two marks */
    BLOCK_WEIGHT = 8,
};
#define CARRIED_LIMIT 0.1 /* a border carries less than this share */

struct mark {
    const uint32_t *at; /* positions, rising */
    uint32_t count, near;
    uint32_t key;
};

static int
by_number(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return (x > y) - (x < y);
}

/* False when the key is no use as a mark. */
static bool
mark_fill(struct dcp_walk *walk, uint32_t key, uint32_t *scratch,
          struct mark *mark)
{
    mark->key = key;
    mark->at = walk->places.items + walk->places.start[key];
    mark->count = walk->places.start[key + 1] - walk->places.start[key];
    if (mark->count < 2)
        return false;
    for (uint32_t i = 1; i < mark->count; i++)
        scratch[i - 1] = mark->at[i] - mark->at[i - 1];
    qsort(scratch, mark->count - 1, sizeof *scratch, by_number);
    mark->near = scratch[(mark->count - 1) / 2] / NEAR;
    walk->steps += mark->count;
    /* What recurred in an earlier phase of the program is of no use. */
    uint32_t left = walk->count - mark->at[mark->count - 1];
    bool recent = left / 2 <= scratch[(mark->count - 1) / 2];
    if (mark->near < 2)
        mark->near = 2;
    return recent;
}

/* The first mark at or after `position`; count when there is none. */
static uint32_t
mark_after(const struct mark *mark, uint32_t position)
{
    uint32_t low = 0, high = mark->count;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (mark->at[middle] < position)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* True when the object is touched near (nearly) every mark and (nearly)
 * nowhere else. *first and *last: where, from the last but one mark. */
static bool
keeps_near(struct dcp_walk *walk, const struct mark *mark, uint32_t object,
           int64_t *first, int64_t *last)
{
    uint32_t begin = walk->touches.start[object];
    uint32_t end = walk->touches.start[object + 1];
    uint32_t hits = 0, away = 0, previous = UINT32_MAX;
    int64_t origin = mark->at[mark->count - 2];

    *first = INT64_MAX;
    *last = INT64_MIN;
    for (uint32_t i = begin; i < end; i++) {
        uint32_t t = walk->touches.items[i];
        if (t + mark->near < mark->at[0])
            continue;
        uint32_t m = mark_after(mark, t > mark->near ? t - mark->near : 0);
        if (m == mark->count || mark->at[m] > t + mark->near) {
            away++;
            continue;
        }
        /* With two marks in reach, the nearer one. */
        while (m + 1 < mark->count && mark->at[m + 1] <= t)
            m++;
        if (m != previous)
            hits++;
        previous = m;
        if (m == mark->count - 2) {
            int64_t at = (int64_t)t - origin;
            *first = at < *first ? at : *first;
            *last = at > *last ? at : *last;
        }
    }
    walk->steps += end - begin;
    return hits + 1 >= mark->count && away * 8 <= hits && *first <= *last;
}

/* The least share that is carried past some point soon after the marks. */
static double
carried_after(struct dcp_walk *walk, const struct mark *mark)
{
    double sum = 0;

    for (uint32_t i = 0; i + 1 < mark->count; i++) {
        double least = 1;
        for (uint32_t d = 0; d <= mark->near; d++) {
            if (mark->at[i] + d >= walk->count)
                break;
            double share = dcp_walk_carried(walk, mark->at[i] + d);
            least = share < least ? share : least;
        }
        sum += least;
    }
    walk->steps += (uint64_t)mark->count * mark->near;
    return sum / (mark->count - 1);
}

/* Objects that are touched close to every mark, elsewhere or not: where there
 * are no states, the update is where parameters come thickest. */
static uint32_t
count_close(struct dcp_walk *walk, const struct mark *mark, uint32_t *seen)
{
    uint32_t count = 0;

    memset(seen, 0, walk->object_count * sizeof *seen);
    for (uint32_t m = 0; m < mark->count; m++) {
        uint32_t reach = mark->near / 4 + 1, at = mark->at[m];
        uint32_t begin = at > reach ? at - reach : 0;
        uint32_t end = at + reach < walk->count ? at + reach : walk->count;
        for (uint32_t r = walk->refs.start[begin]; r < walk->refs.start[end];
             r++)
            if (seen[walk->refs.items[r]] == m)
                seen[walk->refs.items[r]]++;
        walk->steps += walk->refs.start[end] - walk->refs.start[begin];
    }
    for (uint32_t o = 0; o < walk->object_count; o++)
        count += seen[o] == mark->count;
    return count;
}

static double
mark_score(struct dcp_walk *walk, const struct mark *mark, bool close,
           uint32_t *scratch)
{
    uint32_t count = 0;
    int64_t first, last;
    double carried = carried_after(walk, mark);

    if (carried > CARRIED_LIMIT)
        return 0;
    if (close)
        return count_close(walk, mark, scratch) * (1 - carried);
    /* A whole block that is touched nowhere else says more than a place in a
     * pool that holds activations as well. */
    memset(scratch, 0, walk->log->buffer_count * sizeof *scratch);
    for (uint32_t o = 0; o < walk->object_count; o++) {
        bool near = keeps_near(walk, mark, o, &first, &last);
        uint32_t *block = &scratch[walk->object_buffer[o]];
        count += near;
        if (near && *block == 0)
            count += BLOCK_WEIGHT;
        else if (!near && *block == 1)
            count -= BLOCK_WEIGHT;
        *block = near && *block != 2 ? 1 : 2;
    }
    return count * (1 - carried);
}

struct candidate {
    uint32_t key, weight, position;
};

static int
by_weight(const void *a, const void *b)
{
    const struct candidate *x = a, *y = b;

    if (x->weight != y->weight)
        return x->weight > y->weight ? -1 : 1;
    return x->position > y->position ? -1 : x->position < y->position;
}

static int
by_position(const void *a, const void *b)
{
    const struct candidate *x = a, *y = b;

    return x->position < y->position ? -1 : x->position > y->position;
}

/* Keys that may mark updates: recurring launches that touch a lasting block,
 * the weightiest first, then the others in order. */
static uint32_t
list_candidates(struct dcp_walk *walk, uint32_t repeats, uint32_t min_calls,
                struct candidate *list)
{
    uint32_t count = 0;

    for (uint32_t k = 0; k < walk->key_count; k++) {
        uint32_t begin = walk->places.start[k];
        uint32_t end = walk->places.start[k + 1];
        uint32_t last = walk->places.items[end - 1];
        uint32_t weight = walk->refs.start[last + 1] - walk->refs.start[last];
        if (weight == 0 || end - begin < repeats + 1 ||
            walk->log->calls[walk->call[last]].op != DCP_CALL_LAUNCH ||
            walk->places.items[end - 1] - walk->places.items[begin] <
                (end - begin - 1) * min_calls)
            continue;
        list[count++] = (struct candidate){k, weight, last};
    }
    walk->steps += walk->key_count;
    qsort(list, count, sizeof *list, by_weight);
    if (count > DENSE_MARKS)
        qsort(list + DENSE_MARKS, count - DENSE_MARKS, sizeof *list,
              by_position);
    return count;
}

static bool
find_mark(struct dcp_walk *walk, struct candidate *list, uint32_t count,
          bool close, uint32_t *scratch, struct mark *best)
{
    uint32_t stride = 1;
    double best_score = 0;

    if (count > DENSE_MARKS + SPREAD_MARKS)
        stride = (count - DENSE_MARKS) / SPREAD_MARKS;
    for (uint32_t i = 0; i < count; i += i < DENSE_MARKS ? 1 : stride) {
        struct mark mark;
        if (!mark_fill(walk, list[i].key, scratch, &mark))
            continue;
        double score = mark_score(walk, &mark, close, scratch);
        if (score > best_score) {
            best_score = score;
            *best = mark;
        }
    }
    return best_score > 0;
}

/* How far after the mark the objects that keep near it are touched, leaving
 * out stragglers: objects of the next forward pass may keep near as well. */
static uint32_t
update_tail(struct dcp_walk *walk, const struct mark *mark, uint32_t *scratch)
{
    uint32_t count = 0, tail = 0;
    int64_t first, last;

    for (uint32_t o = 0; o < walk->object_count; o++)
        if (keeps_near(walk, mark, o, &first, &last) && last > 0)
            scratch[count++] = (uint32_t)last;
    qsort(scratch, count, sizeof *scratch, by_number);
    uint32_t gap = mark->near / 8 > 3 ? mark->near / 8 : 3;
    for (uint32_t i = 0; i < count && scratch[i] - tail <= gap; i++)
        tail = scratch[i];
    return tail;
}

/* True when the launches of `key` follow those of the mark one by one, soon,
 * and with no more carried over. */
static bool
follows(const struct dcp_walk *walk, const struct mark *mark, uint32_t key)
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
advance(struct dcp_walk *walk, uint32_t *scratch, struct mark *mark)
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
        mark->key = key;
        mark->at = walk->places.items + walk->places.start[key];
    }
}

/* The distance from mark `i` to the best place to cut: where least is carried
 * over; among such places the first before a host wait, else the first past
 * the update, else the last (its end may be taken too far out). */
static uint32_t
cut_after(struct dcp_walk *walk, const struct mark *mark, uint32_t i,
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
settle_ends(const struct dcp_walk *walk, struct mark *mark, uint32_t *delay,
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
anchor_fill(const struct dcp_walk *walk, const struct mark *mark,
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

enum dcp_status
dcp_anchor_find(struct dcp_walk *walk, uint32_t repeats, uint32_t min_calls,
                uint32_t **ends, uint32_t *count, struct dcp_anchor *anchor)
{
    struct candidate *list = dcp_arena_alloc(
        &walk->arena, (walk->key_count + 1) * sizeof *list);
    uint32_t room = walk->count + walk->object_count +
                    walk->log->buffer_count + 1;
    uint32_t *scratch = dcp_arena_alloc(&walk->arena, room * sizeof *scratch);
    struct mark mark;

    *count = 0;
    if (!list || !scratch)
        return DCP_NOMEM;
    uint32_t found = list_candidates(walk, repeats, min_calls, list);
    if (!find_mark(walk, list, found, false, scratch, &mark) &&
        !find_mark(walk, list, found, true, scratch, &mark))
        return DCP_OK;
    advance(walk, scratch, &mark);
    uint32_t *end = dcp_arena_alloc(&walk->arena, mark.count * sizeof *end);
    if (!end)
        return DCP_NOMEM;
    uint32_t tail = update_tail(walk, &mark, scratch);
    for (uint32_t i = 0; i < mark.count; i++)
        end[i] = cut_after(walk, &mark, i, tail);
    settle_ends(walk, &mark, end, scratch);
    anchor_fill(walk, &mark, scratch[0], anchor);
    for (uint32_t i = 0; i < mark.count; i++)
        end[i] += mark.at[i];
    *ends = end;
    *count = mark.count;
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
