/* SPDX-License-Identifier: Apache-2.0 */
/* Finds marks of the update without knowing the period. Every launch that
 * recurs and touches a lasting block could be one; a good mark has many objects
 * that are touched near it, each time, and nowhere else (optimizer states), and
 * soon after it little is carried over (the activations are gone, the gradients
 * used up). */
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

static int
by_number(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return (x > y) - (x < y);
}

/* False when the key is no use as a mark. */
static bool
mark_fill(struct dcp_walk *walk, uint32_t key, uint32_t *scratch,
          struct dcp_mark *mark)
{
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
    mark->before = mark->after = mark->near;
    return recent;
}

/* The first mark at or after `position`; count when there is none. */
static uint32_t
mark_after(const struct dcp_mark *mark, uint32_t position)
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

bool
dcp_mark_keeps(struct dcp_walk *walk, const struct dcp_mark *mark,
               uint32_t object, int64_t *first, int64_t *last)
{
    uint32_t begin = walk->touches.start[object];
    uint32_t end = walk->touches.start[object + 1];
    uint32_t hits = 0, away = 0, previous = UINT32_MAX;
    int64_t origin = mark->at[mark->count - 2];

    *first = INT64_MAX;
    *last = INT64_MIN;
    for (uint32_t i = begin; i < end; i++) {
        uint32_t t = walk->touches.items[i];
        if (t + mark->before < mark->at[0])
            continue;
        uint32_t m = mark_after(mark, t > mark->after ? t - mark->after : 0);
        if (m == mark->count || mark->at[m] > t + mark->before) {
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
carried_after(struct dcp_walk *walk, const struct dcp_mark *mark)
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
count_close(struct dcp_walk *walk, const struct dcp_mark *mark, uint32_t *seen)
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
mark_score(struct dcp_walk *walk, struct dcp_mark *mark, bool close,
           uint32_t *scratch)
{
    uint32_t near = 0, blocks = 0;
    int64_t first, last;
    double carried = carried_after(walk, mark);

    if (carried > CARRIED_LIMIT)
        return 0;
    if (close) {
        near = count_close(walk, mark, scratch);
        mark->share = (double)near / walk->object_count;
        return near * (1 - carried);
    }
    /* A whole block that is touched nowhere else says more than a place in a
     * pool that holds activations as well. */
    memset(scratch, 0, walk->log->buffer_count * sizeof *scratch);
    for (uint32_t o = 0; o < walk->object_count; o++) {
        bool keeps = dcp_mark_keeps(walk, mark, o, &first, &last);
        uint32_t *block = &scratch[walk->object_buffer[o]];
        near += keeps;
        blocks += keeps && *block == 0;
        blocks -= !keeps && *block == 1;
        *block = keeps && *block != 2 ? 1 : 2;
    }
    return (near + blocks * BLOCK_WEIGHT) * (1 - carried);
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
        if (weight == 0 || end - begin < repeats ||
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
best_of(struct dcp_walk *walk, const struct candidate *list, uint32_t count,
        bool close, uint32_t *scratch, struct dcp_mark *best)
{
    uint32_t stride = 1;
    double best_score = 0;

    if (count > DENSE_MARKS + SPREAD_MARKS)
        stride = (count - DENSE_MARKS) / SPREAD_MARKS;
    for (uint32_t i = 0; i < count; i += i < DENSE_MARKS ? 1 : stride) {
        struct dcp_mark mark;
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

enum dcp_status
dcp_mark_find(struct dcp_walk *walk, uint32_t repeats, uint32_t min_calls,
              bool close, uint32_t *scratch, struct dcp_mark *best)
{
    struct candidate *list =
        dcp_arena_alloc(&walk->arena, (walk->key_count + 1) * sizeof *list);

    best->count = 0;
    if (!list)
        return DCP_NOMEM;
    uint32_t count = list_candidates(walk, repeats, min_calls, list);
    if (!best_of(walk, list, count, close, scratch, best))
        best->count = 0;
    return DCP_OK;
}
