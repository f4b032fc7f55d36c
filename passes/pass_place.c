/* SPDX-License-Identifier: Apache-2.0 */
/* Gives every buffer that is born and dies within the iteration an address in
 * one planned range. Replay hands such an address out without a search, and it
 * is the same in every iteration, so that kernel arguments repeat.
 *
 * Requires nothing; breaks nothing; gives PLACES.
 *
 * 1. One after the other: the second takes the first one's place.
 *
 *     buf %0 act bytes=1024                 buf %0 act bytes=1024 at=0
 *     buf %1 act bytes=1024          ->     buf %1 act bytes=1024 at=0
 *     n0 alloc %0 @0                        (and arena=1024 in the step line)
 *     n1 free %0 @0
 *     n2 alloc %1 @0
 *     n3 free %1 @0
 *
 * 2. Live together: side by side, each place rounded up to 512 bytes.
 *
 *     buf %0 act bytes=100                  buf %0 act bytes=100 at=0
 *     buf %1 act bytes=100           ->     buf %1 act bytes=100 at=512
 *     n0 alloc %0 @0                        (arena=1024)
 *     n1 alloc %1 @0
 *     n2 free %0 @0
 *     n3 free %1 @0
 *
 * 3. Older than the iteration, or alive at its end: no place.
 *
 * 4. On two streams: no sharing, as nothing says that the second stream comes
 *    after the first. A buffer that is freed on another stream than it was
 *    allocated on keeps its place to the end.
 *
 *     n0 alloc %0 @0                        buf %0 act bytes=512 at=0
 *     n1 free %0 @0                  ->     buf %1 act bytes=512 at=512
 *     n2 alloc %1 @1
 *     n3 free %1 @1
 *
 * 5. Buffers of a page (2 MiB) and more begin at a multiple of it, if the
 *    range does not become longer for it.
 *
 * Deliberately not handled: order between streams by events; parts of the
 * range other than the first stream's begin where the one before ends, so that
 * their large buffers may miss the page. Tests: tests/ir/place_*.ir. */
#include "config.h"

#include "passes/pass.h"
#include "passes/place_fit.h"

#include "src/ir_live.h"

#include <stdlib.h>
#include <string.h>

/* What can be placed in all, so that no sum comes near the end of 64 bits. */
#define MOST_BYTES ((uint64_t)1 << 60)

/* Steps that the slow way of packing may take for so many buffers: n log n over
 * what some milliseconds do, and never more than a tenth of a second or so. */
static uint64_t
work_allowed(uint32_t count)
{
    uint64_t work = 4000000;

    for (uint32_t n = count; n; n /= 2)
        work += 100 * (uint64_t)count;
    return work < 40000000 ? work : 40000000;
}

/* A packing of one group. */
struct packing {
    uint64_t *at; /* by block */
    uint64_t end; /* DCP_FIT_FAILED: none yet */
};

static bool
has_life(const struct dcp_live *live, uint32_t b)
{
    return live->alloc[b] != DCP_NONE && live->free[b] != DCP_NONE;
}

static uint32_t
stream_of(const struct dcp_graph *graph, uint32_t node)
{
    return graph->nodes[node].stream;
}

struct member {
    uint32_t stream, buffer;
};

static int
by_stream(const void *a, const void *b)
{
    const struct member *m = a, *n = b;

    if (m->stream != n->stream)
        return m->stream < n->stream ? -1 : 1;
    return m->buffer < n->buffer ? -1 : m->buffer > n->buffer;
}

/* The buffers that can be placed, by the stream of their allocation. */
static struct member *
members(const struct dcp_graph *graph, const struct dcp_live *live,
        uint64_t page, struct dcp_arena *arena, uint32_t *count)
{
    uint64_t left = MOST_BYTES;
    struct member *list =
        dcp_arena_alloc(arena, graph->buffer_count * sizeof *list);

    *count = 0;
    for (uint32_t b = 0; list && b < graph->buffer_count; b++) {
        uint64_t need = graph->buffers[b].bytes;

        if (!has_life(live, b) || need > left || left - need < page)
            continue;
        left -= need + page;
        list[(*count)++] =
            (struct member) { stream_of(graph, live->alloc[b]), b };
    }
    if (list)
        qsort(list, *count, sizeof *list, by_stream);
    return list;
}

/* A block for a buffer. One that is freed on another stream is never followed
 * by another: it lives on to the end. */
static void
set_block(const struct dcp_graph *graph, const struct dcp_live *live,
          uint32_t b, uint64_t page, struct dcp_fit_block *block)
{
    uint64_t bytes = graph->buffers[b].bytes ? graph->buffers[b].bytes : 1;
    uint32_t alloc = live->alloc[b], end = live->free[b];

    block->bytes = dcp_fit_align(bytes, DCP_PLACE_ALIGN);
    block->align = page && bytes >= page ? page : DCP_PLACE_ALIGN;
    block->born = alloc;
    block->dead =
        stream_of(graph, alloc) == stream_of(graph, end) ? end : DCP_NONE;
}

/* Keeps the places where they are better than the best so far. */
static void
keep(const struct dcp_fit_block *blocks, uint32_t count, uint64_t end,
     struct packing *best)
{
    if (end >= best->end)
        return;
    best->end = end;
    for (uint32_t i = 0; i < count; i++)
        best->at[i] = blocks[i].at;
}

/* Packs the blocks in all ways until one is as short as can be. */
static void
pack(struct dcp_fit_block *blocks, uint32_t count, uint64_t *work,
     struct packing *best)
{
    struct dcp_arena arena = { 0 };
    uint64_t least = dcp_fit_floor(blocks, count, &arena);

    if (least != DCP_FIT_FAILED)
        keep(blocks, count, dcp_fit_by_time(blocks, count, &arena), best);
    if (best->end > least)
        keep(blocks, count, dcp_fit_by_size(blocks, count, &arena, least, work),
             best);
    dcp_arena_release(&arena);
}

/* The range of one stream's buffers; places go to `at`, by member. Buffers of
 * a page and more are aligned to it where that costs nothing. */
static uint64_t
pack_group(const struct dcp_graph *graph, const struct dcp_live *live,
           const struct member *list, uint32_t count, uint64_t page,
           uint64_t *work, uint64_t *at)
{
    struct dcp_arena arena = { 0 };
    struct dcp_fit_block *blocks =
        dcp_arena_alloc(&arena, count * sizeof *blocks);
    struct packing best = { at, DCP_FIT_FAILED };
    struct packing paged = { dcp_arena_alloc(&arena, count * sizeof *paged.at),
                             DCP_FIT_FAILED };
    bool any = false;

    if (!blocks || !paged.at)
        goto out;
    for (uint32_t i = 0; i < count; i++)
        set_block(graph, live, list[i].buffer, 0, &blocks[i]);
    pack(blocks, count, work, &best);
    for (uint32_t i = 0; i < count; i++) {
        set_block(graph, live, list[i].buffer, page, &blocks[i]);
        any |= blocks[i].align > DCP_PLACE_ALIGN;
    }
    if (any)
        pack(blocks, count, work, &paged);
    if (paged.end <= best.end && paged.end != DCP_FIT_FAILED) {
        best.end = paged.end;
        memcpy(at, paged.at, count * sizeof *at);
    }
out:
    dcp_arena_release(&arena);
    return best.end;
}

/* The places of all members, one stream's part of the range after the other's;
 * the end of it, or DCP_FIT_FAILED. */
static uint64_t
pack_all(const struct dcp_graph *graph, const struct dcp_live *live,
         const struct member *list, uint32_t count, uint64_t page, uint64_t *at)
{
    uint64_t end = 0, work = work_allowed(count);

    for (uint32_t first = 0, next; first < count; first = next) {
        for (next = first; next < count; next++)
            if (list[next].stream != list[first].stream)
                break;
        uint64_t bytes = pack_group(graph, live, list + first, next - first,
                                    page, &work, at + first);
        if (bytes == DCP_FIT_FAILED)
            return DCP_FIT_FAILED;
        for (uint32_t i = first; i < next; i++)
            at[i] += end;
        end += bytes;
    }
    return end;
}

/* Writes the places into the graph; whether that changed it. */
static bool
apply(struct dcp_graph *graph, const uint64_t *place, uint64_t end)
{
    bool changed = graph->arena_bytes != end;

    graph->arena_bytes = end;
    for (uint32_t b = 0; b < graph->buffer_count; b++) {
        changed |= graph->buffers[b].place != place[b];
        graph->buffers[b].place = place[b];
    }
    return changed;
}

static bool
place_all(struct dcp_graph *graph, uint64_t page, struct dcp_arena *arena)
{
    uint64_t *at, *place, end;
    struct dcp_live live;
    struct member *list;
    uint32_t count;

    if (dcp_live_fill(graph, arena, &live) ||
        !(list = members(graph, &live, page, arena, &count)) ||
        !(at = dcp_arena_alloc(arena, count * sizeof *at)) ||
        !(place = dcp_arena_alloc(arena, graph->buffer_count * sizeof *place)))
        return false;
    end = pack_all(graph, &live, list, count, page, at);
    if (end == DCP_FIT_FAILED)
        return false;
    for (uint32_t b = 0; b < graph->buffer_count; b++)
        place[b] = DCP_NO_PLACE;
    for (uint32_t i = 0; i < count; i++)
        place[list[i].buffer] = at[i];
    return apply(graph, place, end);
}

bool
dcp_pass_place(struct dcp_graph *graph, const struct dcp_pass_ctx *ctx)
{
    uint64_t page =
        ctx->page_bytes > DCP_PLACE_ALIGN ? ctx->page_bytes : DCP_PLACE_ALIGN;
    struct dcp_arena arena = { 0 };
    bool changed = place_all(graph, page, &arena);

    dcp_arena_release(&arena);
    if (changed)
        dcp_pass_changed(ctx, DCP_FACT_ROLES | DCP_FACT_TIMES, DCP_FACT_PLACES);
    return changed;
}
