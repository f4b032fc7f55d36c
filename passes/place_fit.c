/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "passes/place_fit.h"

#include <stdlib.h>
#include <string.h>

/* --- time ----------------------------------------------------------------- */

static int
by_when(const void *a, const void *b)
{
    const struct dcp_fit_moment *m = a, *n = b;

    if (m->when != n->when)
        return m->when < n->when ? -1 : 1;
    return m->block < n->block ? -1 : m->block > n->block;
}

struct dcp_fit_moment *
dcp_fit_moments(const struct dcp_fit_block *blocks, uint32_t count,
                struct dcp_arena *arena)
{
    struct dcp_fit_moment *list =
        dcp_arena_alloc(arena, 2 * (size_t)count * sizeof *list);

    for (uint32_t i = 0; list && i < count; i++) {
        list[2 * i].when = 2 * (uint64_t)blocks[i].born + 1;
        list[2 * i + 1].when = 2 * (uint64_t)blocks[i].dead;
        list[2 * i].block = list[2 * i + 1].block = i;
    }
    if (list)
        qsort(list, 2 * (size_t)count, sizeof *list, by_when);
    return list;
}

uint64_t
dcp_fit_floor(const struct dcp_fit_block *blocks, uint32_t count,
              struct dcp_arena *arena)
{
    struct dcp_fit_moment *list = dcp_fit_moments(blocks, count, arena);
    uint64_t now = 0, most = 0;

    if (!list)
        return DCP_FIT_FAILED;
    for (uint32_t i = 0; i < 2 * count; i++) {
        if (list[i].when % 2)
            now += blocks[list[i].block].bytes;
        else
            now -= blocks[list[i].block].bytes;
        if (now > most)
            most = now;
    }
    return most;
}

/* --- by size -------------------------------------------------------------- */

/* A block in the order in which it is placed. */
struct turn {
    uint64_t major, minor; /* the larger first */
    uint32_t block;
};

static int
by_turn(const void *a, const void *b)
{
    const struct turn *s = a, *t = b;

    if (s->major != t->major)
        return s->major > t->major ? -1 : 1;
    if (s->minor != t->minor)
        return s->minor > t->minor ? -1 : 1;
    return s->block < t->block ? -1 : s->block > t->block;
}

/* What is placed, by address. */
struct placed {
    uint64_t at, end;
    uint32_t born, dead;
};

static void
spend(uint64_t *work, uint64_t steps)
{
    *work = *work > steps ? *work - steps : 0;
}

/* The lowest gap for a block among `used` placed ones. */
static uint64_t
lowest(const struct placed *list, uint32_t used,
       const struct dcp_fit_block *block, uint64_t *work)
{
    uint64_t at = 0;
    uint32_t i = 0;

    for (; i < used; i++) {
        if (list[i].dead < block->born || block->dead < list[i].born ||
            list[i].end <= at)
            continue;
        if (list[i].at >= at + block->bytes)
            break;
        at = dcp_fit_align(list[i].end, block->align);
    }
    spend(work, i);
    return at;
}

static void
insert(struct placed *list, uint32_t used, const struct dcp_fit_block *block,
       uint64_t *work)
{
    uint32_t low = 0, high = used;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (list[middle].at <= block->at)
            low = middle + 1;
        else
            high = middle;
    }
    memmove(list + low + 1, list + low, (used - low) * sizeof *list);
    spend(work, (used - low) / 8);
    list[low] = (struct placed) { block->at, block->at + block->bytes,
                                  block->born, block->dead };
}

/* One packing in the order of turns; *top is the turn that ended highest. */
static uint64_t
pack(struct dcp_fit_block *blocks, const struct turn *turns, uint32_t count,
     struct placed *list, uint32_t *top, uint64_t *work)
{
    uint64_t end = 0;

    for (uint32_t i = 0; i < count; i++) {
        struct dcp_fit_block *block = &blocks[turns[i].block];

        block->at = lowest(list, i, block, work);
        insert(list, i, block, work);
        if (block->at + block->bytes > end) {
            end = block->at + block->bytes;
            *top = i;
        }
        if (!*work)
            return DCP_FIT_FAILED;
    }
    return end;
}

static void
keep_places(const struct dcp_fit_block *blocks, uint32_t count, uint64_t *best)
{
    for (uint32_t i = 0; i < count; i++)
        best[i] = blocks[i].at;
}

static void
to_front(struct turn *turns, uint32_t i)
{
    struct turn moved = turns[i];

    memmove(turns + 1, turns, i * sizeof *turns);
    turns[0] = moved;
}

uint64_t
dcp_fit_by_size(struct dcp_fit_block *blocks, uint32_t count,
                struct dcp_arena *arena, uint64_t enough, uint64_t *work)
{
    enum { ROUNDS = 24 };
    struct turn *turns = dcp_arena_alloc(arena, count * sizeof *turns);
    struct placed *list = dcp_arena_alloc(arena, count * sizeof *list);
    uint64_t *best = dcp_arena_alloc(arena, count * sizeof *best);
    uint64_t shortest = DCP_FIT_FAILED;
    uint32_t top = 0;

    if (!turns || !list || !best)
        return DCP_FIT_FAILED;
    for (uint32_t i = 0; i < count; i++) {
        turns[i].block = i;
        turns[i].major = blocks[i].bytes;
        turns[i].minor = blocks[i].dead - blocks[i].born;
    }
    qsort(turns, count, sizeof *turns, by_turn);
    for (int round = 0; round < ROUNDS && shortest > enough; round++) {
        uint64_t end = pack(blocks, turns, count, list, &top, work);

        if (end == DCP_FIT_FAILED)
            break;
        if (end < shortest) {
            shortest = end;
            keep_places(blocks, count, best);
        }
        to_front(turns, top);
    }
    for (uint32_t i = 0; i < count && shortest != DCP_FIT_FAILED; i++)
        blocks[i].at = best[i];
    return shortest;
}
