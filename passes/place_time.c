/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "passes/place_fit.h"

#include "src/tree.h"

#include <stdbool.h>

/* A stretch of the range, free or taken; neighbours are linked. */
struct stretch {
    struct dcp_tree_node node; /* in the tree while free: bytes, then first
                                  byte; must be the first member */
    uint64_t at, bytes;
    struct stretch *prev, *next;
    bool free;
};

struct allocator {
    struct dcp_tree gaps;
    struct stretch *last; /* NULL: the range is empty */
    struct stretch *spare;
    struct dcp_arena *arena;
    uint64_t end;
};

static struct stretch *
new_stretch(struct allocator *a, uint64_t at, uint64_t bytes)
{
    struct stretch *s = a->spare;

    if (s)
        a->spare = s->next;
    else
        s = dcp_arena_alloc(a->arena, sizeof *s);
    if (s) {
        s->at = at;
        s->bytes = bytes;
        s->prev = s->next = NULL;
        s->free = false;
    }
    return s;
}

static void
set_free(struct allocator *a, struct stretch *s)
{
    s->free = true;
    s->node.key = s->bytes;
    s->node.second = s->at;
    dcp_tree_insert(&a->gaps, &s->node);
}

static void
link_after(struct allocator *a, struct stretch *s, struct stretch *prev)
{
    s->prev = prev;
    s->next = prev ? prev->next : NULL;
    if (prev)
        prev->next = s;
    if (s->next)
        s->next->prev = s;
    else
        a->last = s;
}

/* Cuts the bytes from `cut` on off a taken stretch; they become a free one. */
static bool
cut_off(struct allocator *a, struct stretch *s, uint64_t cut)
{
    struct stretch *rest = new_stretch(a, cut, s->at + s->bytes - cut);

    if (!rest)
        return false;
    s->bytes = cut - s->at;
    link_after(a, rest, s);
    set_free(a, rest);
    return true;
}

/* A new stretch at the end of the range, which grows. */
static struct stretch *
extend(struct allocator *a, const struct dcp_fit_block *block)
{
    struct stretch *last = a->last, *s;

    if (last && last->free) {
        dcp_tree_remove(&a->gaps, &last->node);
        last->free = false;
        s = last;
    } else if ((s = new_stretch(a, a->end, 0))) {
        link_after(a, s, last);
    }
    if (!s)
        return NULL;
    uint64_t need = dcp_fit_align(s->at, block->align) - s->at + block->bytes;
    if (s->bytes < need) {
        s->bytes = need;
        a->end = s->at + need;
    }
    return s;
}

/* The smallest gap that the block fits; those that it fits only unaligned are
 * passed by, a few times. */
static struct stretch *
find_gap(struct allocator *a, const struct dcp_fit_block *block)
{
    enum { TRIES = 16 };
    uint64_t key = block->bytes, second = 0;

    for (int i = 0; i < TRIES; i++) {
        struct stretch *s =
            (struct stretch *)dcp_tree_ceil(&a->gaps, key, second);

        if (!s)
            return NULL;
        if (dcp_fit_align(s->at, block->align) - s->at + block->bytes <=
            s->bytes)
            return s;
        key = s->node.key;
        second = s->node.second + 1;
    }
    return (struct stretch *)dcp_tree_ceil(&a->gaps,
                                           block->bytes + block->align, 0);
}

/* The stretch that the block now has to itself; NULL: memory is out. */
static struct stretch *
take(struct allocator *a, struct dcp_fit_block *block)
{
    struct stretch *s = find_gap(a, block), *head;

    if (s) {
        dcp_tree_remove(&a->gaps, &s->node);
        s->free = false;
    } else if (!(s = extend(a, block))) {
        return NULL;
    }
    block->at = dcp_fit_align(s->at, block->align);
    if (block->at > s->at) {
        if (!(head = new_stretch(a, s->at, block->at - s->at)))
            return NULL;
        head->prev = s->prev;
        head->next = s;
        if (head->prev)
            head->prev->next = head;
        s->prev = head;
        s->bytes -= head->bytes;
        s->at = block->at;
        set_free(a, head);
    }
    if (s->bytes > block->bytes && !cut_off(a, s, s->at + block->bytes))
        return NULL;
    return s;
}

/* Joins a free neighbour behind `s` to it. */
static void
join_next(struct allocator *a, struct stretch *s)
{
    struct stretch *next = s->next;

    s->bytes += next->bytes;
    s->next = next->next;
    if (s->next)
        s->next->prev = s;
    else
        a->last = s;
    next->next = a->spare;
    a->spare = next;
}

static void
give(struct allocator *a, struct stretch *s)
{
    if (s->next && s->next->free) {
        dcp_tree_remove(&a->gaps, &s->next->node);
        join_next(a, s);
    }
    if (s->prev && s->prev->free) {
        s = s->prev;
        dcp_tree_remove(&a->gaps, &s->node);
        join_next(a, s);
    }
    set_free(a, s);
}

uint64_t
dcp_fit_by_time(struct dcp_fit_block *blocks, uint32_t count,
                struct dcp_arena *arena)
{
    struct allocator a = { .arena = arena };
    struct dcp_fit_moment *list = dcp_fit_moments(blocks, count, arena);
    struct stretch **taken = dcp_arena_alloc(arena, count * sizeof *taken);

    if (!list || !taken)
        return DCP_FIT_FAILED;
    for (uint32_t i = 0; i < 2 * count; i++) {
        uint32_t b = list[i].block;

        if (list[i].when % 2 == 0)
            give(&a, taken[b]);
        else if (!(taken[b] = take(&a, &blocks[b])))
            return DCP_FIT_FAILED;
    }
    return a.end;
}
