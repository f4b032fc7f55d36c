/* SPDX-License-Identifier: Apache-2.0 */
/* Chunks and the pieces that they are cut into. */
#include "config.h"

#include "src/alloc.h"
#include "src/log.h"

#include "intercept/heap_core.h"
#include "intercept/space.h"

#include <sys/mman.h>

static struct dcp_piece *spare_pieces;
static struct dcp_chunk *spare_chunks;

static struct dcp_piece *
piece_new(void)
{
    struct dcp_piece *piece = spare_pieces;

    if (piece)
        spare_pieces = piece->right;
    else
        piece = dcp_arena_alloc(&dcp_heap.arena, sizeof *piece);
    return piece;
}

static void
piece_recycle(struct dcp_piece *piece)
{
    piece->right = spare_pieces;
    spare_pieces = piece;
}

static size_t
unit_of(const struct dcp_chunk *chunk, CUdeviceptr address)
{
    return (address - chunk->base) >> chunk->shift;
}

static void
start_set(struct dcp_chunk *chunk, struct dcp_piece *piece)
{
    size_t unit = unit_of(chunk, piece->base);

    chunk->at[unit] = piece;
    for (unsigned level = 0; level < chunk->levels; level++, unit >>= 6) {
        uint64_t *word = &chunk->starts[level][unit >> 6], old = *word;

        *word = old | (uint64_t)1 << (unit & 63);
        if (old)
            break;
    }
}

static void
start_clear(struct dcp_chunk *chunk, const struct dcp_piece *piece)
{
    size_t unit = unit_of(chunk, piece->base);

    chunk->at[unit] = NULL;
    for (unsigned level = 0; level < chunk->levels; level++, unit >>= 6) {
        uint64_t *word = &chunk->starts[level][unit >> 6];

        *word &= ~((uint64_t)1 << (unit & 63));
        if (*word)
            break;
    }
}

/* The last start at or before the unit; there is one, at unit 0. */
static size_t
start_before(const struct dcp_chunk *chunk, size_t unit)
{
    unsigned level = 0;
    uint64_t word;

    for (;; level++) {
        word = chunk->starts[level][unit >> 6] &
               (~(uint64_t)0 >> (63 - (unit & 63)));
        if (word)
            break;
        /* Nothing in this word: go on with the words before it. */
        unit >>= 6;
        if (unit == 0 || level + 1 == chunk->levels)
            return 0;
        unit--;
    }
    unit = (unit & ~(size_t)63) + 63 - (size_t)__builtin_clzll(word);
    while (level-- > 0)
        unit = unit * 64 + 63 -
               (size_t)__builtin_clzll(chunk->starts[level][unit]);
    return unit;
}

/* One mapping holds the table by unit and the bitmaps. Its pages are touched
 * only where pieces start. */
static bool
map_new(struct dcp_chunk *chunk)
{
    size_t units = chunk->bytes >> chunk->shift;
    size_t words = units, total = units * sizeof *chunk->at;
    size_t offset[DCP_CHUNK_LEVELS];

    chunk->levels = 0;
    do {
        words = (words + 63) / 64;
        offset[chunk->levels++] = total;
        total += words * 8;
    } while (words > 1 && chunk->levels < DCP_CHUNK_LEVELS);
    char *map = dcp_map(total);
    if (map == NULL)
        return false;
    chunk->at = (void *)map;
    for (unsigned level = 0; level < chunk->levels; level++)
        chunk->starts[level] = (void *)(map + offset[level]);
    chunk->map_bytes = total;
    return true;
}

static void
chunk_recycle(struct dcp_chunk *chunk)
{
    if (chunk->at)
        munmap(chunk->at, chunk->map_bytes);
    chunk->at = NULL;
    chunk->next = spare_chunks;
    spare_chunks = chunk;
}

static struct dcp_chunk *
chunk_blank(size_t bytes, enum dcp_heap_kind kind)
{
    struct dcp_chunk *chunk = spare_chunks;

    if (chunk)
        spare_chunks = chunk->next;
    else
        chunk = dcp_arena_alloc(&dcp_heap.arena, sizeof *chunk);
    if (chunk == NULL)
        return NULL;
    *chunk = (struct dcp_chunk){ .bytes = bytes, .kind = kind };
    chunk->shift = dcp_heap_shift(kind);
    if (map_new(chunk))
        return chunk;
    chunk_recycle(chunk);
    return NULL;
}

CUresult
dcp_chunk_new(size_t bytes, enum dcp_heap_kind kind, struct dcp_owner *owner,
              struct dcp_chunk **out)
{
    struct dcp_chunk *chunk = chunk_blank(bytes, kind);
    struct dcp_piece *piece = piece_new();
    CUresult cu = CUDA_ERROR_OUT_OF_MEMORY;

    if (chunk == NULL || piece == NULL)
        goto out_nodes;
    chunk->base = dcp_space_take(bytes);
    if (chunk->base == 0)
        goto out_nodes;
    cu = dcp_frame_back(&chunk->frame, chunk->base, bytes,
                        kind >= DCP_HEAP_SMALL_HOST);
    if (cu != CUDA_SUCCESS)
        goto out_space;
    *piece = (struct dcp_piece){ .base = chunk->base, .bytes = bytes,
                                 .owner = owner, .chunk = chunk };
    start_set(chunk, piece);
    dcp_space_set_owner(chunk->base, bytes, chunk);
    chunk->next = dcp_heap.chunks;
    if (chunk->next)
        chunk->next->prev = chunk;
    dcp_heap.chunks = chunk;
    dcp_piece_shelve(piece);
    *out = chunk;
    return CUDA_SUCCESS;

out_space:
    if (chunk->frame.at == 0)
        dcp_space_put(chunk->base, bytes);
out_nodes:
    if (piece)
        piece_recycle(piece);
    if (chunk)
        chunk_recycle(chunk);
    return cu;
}

CUresult
dcp_chunk_drop(struct dcp_chunk *chunk)
{
    CUresult cu = dcp_frame_release(&chunk->frame);

    if (cu != CUDA_SUCCESS)
        return cu;
    for (struct dcp_piece *piece = chunk->at[0], *next; piece; piece = next) {
        next = piece->next;
        dcp_size_tree_remove(&piece->owner->tree[chunk->kind], piece);
        piece_recycle(piece);
    }
    dcp_space_put(chunk->base, chunk->bytes);
    if (chunk->prev)
        chunk->prev->next = chunk->next;
    else
        dcp_heap.chunks = chunk->next;
    if (chunk->next)
        chunk->next->prev = chunk->prev;
    chunk_recycle(chunk);
    return CUDA_SUCCESS;
}

/* Cuts the piece in two; the second one gets the same owner and number. NULL
 * when there is no memory for it. */
static struct dcp_piece *
piece_split(struct dcp_piece *piece, size_t bytes)
{
    struct dcp_piece *rest = piece_new();

    if (rest == NULL)
        return NULL;
    *rest = (struct dcp_piece){
        .base = piece->base + bytes, .bytes = piece->bytes - bytes,
        .seq = piece->seq, .owner = piece->owner, .chunk = piece->chunk,
        .prev = piece, .next = piece->next,
    };
    if (rest->next)
        rest->next->prev = rest;
    piece->next = rest;
    piece->bytes = bytes;
    start_set(piece->chunk, rest);
    return rest;
}

static void
tree_put(struct dcp_piece *piece)
{
    piece->state = DCP_PIECE_TREE;
    dcp_size_tree_add(&piece->owner->tree[piece->chunk->kind], piece);
}

struct dcp_piece *
dcp_piece_carve(struct dcp_piece *piece, size_t bytes, size_t align)
{
    size_t gap = -piece->base & (align - 1);
    struct dcp_piece *rest;

    dcp_size_tree_remove(&piece->owner->tree[piece->chunk->kind], piece);
    if (gap) {
        rest = piece_split(piece, gap);
        tree_put(piece);
        if (rest == NULL)
            return NULL;
        piece = rest;
    }
    if (piece->bytes > bytes) {
        rest = piece_split(piece, bytes);
        if (rest)
            tree_put(rest);
    }
    piece->bin = NULL;
    return piece;
}

/* Pieces of one owner join, and idle ones join anybody's. */
static bool
can_join(const struct dcp_piece *piece, const struct dcp_piece *other)
{
    return other && other->state == DCP_PIECE_TREE &&
           (other->owner == piece->owner || other->owner == dcp_heap.nobody ||
            piece->owner == dcp_heap.nobody);
}

/* The lower piece swallows the upper one; both are out of the trees. */
static struct dcp_piece *
join(struct dcp_piece *low, struct dcp_piece *high)
{
    start_clear(high->chunk, high);
    low->bytes += high->bytes;
    low->next = high->next;
    if (low->next)
        low->next->prev = low;
    if (low->owner == dcp_heap.nobody)
        low->owner = high->owner;
    if (low->seq < high->seq)
        low->seq = high->seq;
    piece_recycle(high);
    return low;
}

struct dcp_piece *
dcp_piece_shelve(struct dcp_piece *piece)
{
    unsigned kind = piece->chunk->kind;
    struct dcp_piece *prev = piece->prev, *next = piece->next;

    if (can_join(piece, next)) {
        dcp_size_tree_remove(&next->owner->tree[kind], next);
        piece = join(piece, next);
    }
    if (can_join(piece, prev)) {
        dcp_size_tree_remove(&prev->owner->tree[kind], prev);
        piece = join(prev, piece);
    }
    tree_put(piece);
    return piece;
}

struct dcp_piece *
dcp_piece_at(CUdeviceptr address)
{
    struct dcp_chunk *chunk = dcp_space_owner(address);

    if (chunk == NULL)
        return NULL;
    struct dcp_piece *piece = chunk->at[unit_of(chunk, address)];
    return piece && piece->base == address ? piece : NULL;
}

struct dcp_piece *
dcp_piece_around(CUdeviceptr address)
{
    struct dcp_chunk *chunk = dcp_space_owner(address);

    if (chunk == NULL)
        return NULL;
    return chunk->at[start_before(chunk, unit_of(chunk, address))];
}

void
dcp_chunk_forget(void)
{
    struct dcp_chunk *next;

    for (struct dcp_chunk *chunk = dcp_heap.chunks; chunk; chunk = next) {
        next = chunk->next;
        if (dcp_frame_release(&chunk->frame))
            dcp_debug("a frame of %zu bytes went with its context",
                      chunk->bytes);
        munmap(chunk->at, chunk->map_bytes);
    }
    dcp_frame_settle();
    dcp_heap.chunks = NULL;
    spare_pieces = NULL;
    spare_chunks = NULL;
}
