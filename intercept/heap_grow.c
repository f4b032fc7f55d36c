/* SPDX-License-Identifier: Apache-2.0 */
/* What happens when no bin holds the size: best fit, then memory of other
 * streams whose work is over, then new frames, then everything that a wait
 * for the device can bring, then host frames. */
#include "config.h"

#include "src/log.h"

#include "intercept/heap_core.h"
#include "intercept/hook.h"

#define MIB ((size_t)1 << 20)

static size_t
round_up(size_t bytes, size_t unit)
{
    return (bytes + unit - 1) & ~(unit - 1);
}

/* Blocks of ten megabytes and of the large size get a chunk of their own;
 * smaller ones share. */
static size_t
chunk_bytes(size_t bytes, enum dcp_heap_kind kind)
{
    size_t own = dcp_heap.large < 10 * MIB ? dcp_heap.large : 10 * MIB;
    size_t shared = dcp_heap_shift(kind) == 9 ? 2 * MIB : 20 * MIB;

    return round_up(bytes < own ? shared : bytes,
                    dcp_heap.page);
}

/* The smallest piece of the tree that a block fits into. A large block starts
 * at a page, which not every piece of its size allows. */
static struct dcp_piece *
fit(struct dcp_piece *root, size_t bytes, bool idle)
{
    size_t align = bytes >= dcp_heap.large ? dcp_heap.page : 1;
    struct dcp_piece *piece = dcp_size_tree_from(root, bytes, 0);

    for (int tries = 0; piece; tries++) {
        size_t gap = -piece->base & (align - 1);

        if (piece->bytes - bytes >= gap && (!idle || dcp_piece_is_idle(piece)))
            return piece;
        if (tries == 32)
            return NULL;
        if (tries == 16 && piece->bytes < bytes + align)
            piece = dcp_size_tree_from(root, bytes + align, 0);
        else
            piece = dcp_size_tree_from(root, piece->bytes, piece->base + 1);
    }
    return NULL;
}

static struct dcp_piece *
smaller(struct dcp_piece *a, struct dcp_piece *b)
{
    if (a == NULL || b == NULL)
        return a ? a : b;
    if (a->bytes != b->bytes)
        return a->bytes < b->bytes ? a : b;
    return a->base < b->base ? a : b;
}

static struct dcp_piece *
search(const struct dcp_owner *owner, size_t bytes, enum dcp_heap_kind kind)
{
    return smaller(fit(owner->tree[kind], bytes, false),
                   fit(dcp_heap.nobody->tree[kind], bytes, false));
}

/* Another stream's memory, where its work is known to be over. */
static struct dcp_piece *
borrow(const struct dcp_owner *owner, size_t bytes, enum dcp_heap_kind kind)
{
    for (struct dcp_owner *other = dcp_heap.owners; other;
         other = other->next) {
        if (other == owner || other == dcp_heap.nobody)
            continue;
        dcp_bin_flush(other, kind);
        if (dcp_size_tree_from(other->tree[kind], bytes, 0) == NULL)
            continue;
        dcp_owner_poll(other);
        struct dcp_piece *piece = fit(other->tree[kind], bytes, true);
        if (piece)
            return piece;
    }
    return NULL;
}

static bool
relax(CUstreamCaptureMode *mode)
{
    *mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    return atomic_load(&dcp_heap_captures) &&
           dcp_real.cuThreadExchangeStreamCaptureMode &&
           dcp_real.cuThreadExchangeStreamCaptureMode(mode) == CUDA_SUCCESS;
}

static CUresult
grow(struct dcp_owner *owner, size_t bytes, enum dcp_heap_kind kind,
     struct dcp_piece **out)
{
    size_t want = chunk_bytes(bytes, kind);
    size_t least = round_up(bytes, dcp_heap.page);
    struct dcp_chunk *chunk;
    CUstreamCaptureMode mode;
    bool relaxed = relax(&mode);

    CUresult cu = dcp_chunk_new(want, kind, owner, &chunk);
    if (cu == CUDA_ERROR_OUT_OF_MEMORY && want > least)
        cu = dcp_chunk_new(least, kind, owner, &chunk);
    if (relaxed)
        dcp_real.cuThreadExchangeStreamCaptureMode(&mode);
    if (cu == CUDA_SUCCESS)
        *out = chunk->at[0];
    return cu;
}

static bool
is_unused(const struct dcp_chunk *chunk, bool host)
{
    return chunk->used == 0 && chunk->frame.host == host;
}

size_t
dcp_heap_unused(bool host)
{
    size_t bytes = 0;

    for (struct dcp_chunk *chunk = dcp_heap.chunks; chunk; chunk = chunk->next)
        if (is_unused(chunk, host))
            bytes += chunk->bytes;
    return bytes;
}

static bool
can_drop(const struct dcp_chunk *chunk, bool host)
{
    if (!is_unused(chunk, host))
        return false;
    for (struct dcp_piece *piece = chunk->at[0]; piece; piece = piece->next)
        if (piece->state != DCP_PIECE_TREE || !dcp_piece_is_idle(piece))
            return false;
    return true;
}

static size_t
drop(struct dcp_chunk *chunk)
{
    static bool told;
    size_t bytes = chunk->bytes;
    CUresult cu = dcp_chunk_drop(chunk);

    if (cu == CUDA_SUCCESS)
        return bytes;
    if (!told)
        dcp_warn("a frame of %zu bytes could not be given back (error %d)",
                 bytes, (int)cu);
    told = true;
    return 0;
}

size_t
dcp_heap_shed(size_t want, bool host)
{
    struct dcp_chunk *best = NULL, *next;
    size_t freed = 0;
    CUstreamCaptureMode mode;

    dcp_bin_flush_all();
    bool relaxed = relax(&mode);
    for (struct dcp_chunk *chunk = dcp_heap.chunks; chunk; chunk = chunk->next)
        if (chunk->bytes >= want && (!best || chunk->bytes < best->bytes) &&
            can_drop(chunk, host))
            best = chunk;
    if (best)
        freed = drop(best);
    for (struct dcp_chunk *chunk = dcp_heap.chunks; chunk && freed < want;
         chunk = next) {
        next = chunk->next;
        if (can_drop(chunk, host))
            freed += drop(chunk);
    }
    if (relaxed)
        dcp_real.cuThreadExchangeStreamCaptureMode(&mode);
    return freed;
}

static void
disown(struct dcp_piece *piece)
{
    dcp_size_tree_remove(&piece->owner->tree[piece->chunk->kind], piece);
    piece->owner = dcp_heap.nobody;
    piece->seq = 0;
    dcp_size_tree_add(&piece->owner->tree[piece->chunk->kind], piece);
}

static bool
can_join_next(const struct dcp_piece *piece)
{
    return piece->next && piece->next->state == DCP_PIECE_TREE &&
           piece->next->owner == piece->owner;
}

size_t
dcp_heap_drop(struct dcp_chunk *chunk)
{
    if (chunk->used)
        return 0;
    dcp_bin_flush_all();
    return can_drop(chunk, chunk->frame.host) ? drop(chunk) : 0;
}

void
dcp_heap_settle(void)
{
    dcp_bin_flush_all();
    for (struct dcp_chunk *chunk = dcp_heap.chunks; chunk;
         chunk = chunk->next) {
        struct dcp_piece *piece;

        for (piece = chunk->at[0]; piece; piece = piece->next)
            if (piece->state == DCP_PIECE_TREE && dcp_piece_is_idle(piece))
                disown(piece);
        for (piece = chunk->at[0]; piece; piece = piece->next)
            if (piece->state == DCP_PIECE_TREE && can_join_next(piece)) {
                dcp_size_tree_remove(&piece->owner->tree[chunk->kind], piece);
                piece = dcp_piece_shelve(piece);
            }
    }
}

static void (*pressure)(void);
static bool (*held)(void);

void
dcp_heap_on_pressure(bool (*is_held)(void), void (*issue)(void))
{
    held = is_held;
    pressure = issue;
}

bool
dcp_heap_held(void)
{
    return held && held();
}

/* Under the lock, which is given up meanwhile: whatever the listener holds
 * back is issued, so that an event or a wait from here on covers it. */
static void
press(void)
{
    if (!pressure)
        return;
    dcp_lock_give(&dcp_heap.lock);
    pressure();
    dcp_lock_take(&dcp_heap.lock);
}

CUresult
dcp_heap_wait(void)
{
    if (atomic_load(&dcp_heap_captures))
        return CUDA_ERROR_NOT_PERMITTED;
    press();
    uint64_t mark = dcp_heap.seq;
    dcp_lock_give(&dcp_heap.lock);
    CUresult cu = dcp_real.cuCtxSynchronize();
    dcp_lock_take(&dcp_heap.lock);
    if (!dcp_heap.on)
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    if (cu == CUDA_SUCCESS && dcp_heap.idle < mark)
        dcp_heap.idle = mark;
    return cu;
}

/* Waiting once may spare a frame: unused chunks of the wrong size go and the
 * new one takes their place. It is worth a stop only while the program still
 * finds its size, so it has to be earned by a rising number of live bytes. */
static bool
should_compact(size_t want)
{
    struct dcp_frame_stats frames;

    dcp_frame_get_stats(&frames);
    if (want < 10 * MIB || atomic_load(&dcp_heap_captures) ||
        frames.device + want <= frames.device_peak ||
        dcp_heap_unused(false) < want / 4)
        return false;
    if (dcp_heap.used > dcp_heap.compact_used + dcp_heap.compact_used / 16) {
        dcp_heap.compact_used = dcp_heap.used;
        dcp_heap.compact_left = 16;
    }
    if (dcp_heap.compact_left == 0)
        return false;
    dcp_heap.compact_left--;
    return true;
}

/* Waits, then looks again, then exchanges unused frames for a fitting one. */
static CUresult
reframe(struct dcp_owner *owner, size_t bytes, enum dcp_heap_kind kind,
        struct dcp_piece **out)
{
    CUresult cu = dcp_heap_wait();

    if (cu != CUDA_SUCCESS)
        return cu == CUDA_ERROR_NOT_PERMITTED ? CUDA_ERROR_OUT_OF_MEMORY : cu;
    dcp_heap_settle();
    *out = search(owner, bytes, kind);
    if (*out)
        return CUDA_SUCCESS;
    dcp_heap_shed(round_up(bytes, dcp_heap.page), false);
    return grow(owner, bytes, kind, out);
}

/* False when even all that is free together would not do, or when waiting is
 * not allowed anyway. */
static bool
could_reframe(size_t bytes)
{
    size_t room = dcp_frame_room(), left = 0, total = 0;

    if (atomic_load(&dcp_heap_captures))
        return false;
    if (dcp_real.cuMemGetInfo_v2 == NULL ||
        dcp_real.cuMemGetInfo_v2(&left, &total) != CUDA_SUCCESS)
        return true;
    if (room > left)
        room = left;
    for (struct dcp_chunk *chunk = dcp_heap.chunks; chunk; chunk = chunk->next)
        if (!chunk->frame.host)
            room += chunk->bytes - chunk->used;
    return room >= bytes;
}

static CUresult
spill(struct dcp_owner *owner, size_t bytes, enum dcp_heap_kind kind,
      struct dcp_piece **out)
{
    static bool told;
    enum dcp_heap_kind host = kind + DCP_HEAP_SMALL_HOST;

    if (!dcp_heap.options.spill || !dcp_frame_has_host())
        return CUDA_ERROR_OUT_OF_MEMORY;
    *out = search(owner, bytes, host);
    if (*out == NULL)
        *out = borrow(owner, bytes, host);
    if (*out)
        return CUDA_SUCCESS;
    CUresult cu = grow(owner, bytes, host, out);
    if (cu == CUDA_ERROR_OUT_OF_MEMORY &&
        dcp_heap_shed(round_up(bytes, dcp_heap.page), true))
        cu = grow(owner, bytes, host, out);
    if (cu == CUDA_SUCCESS && !told) {
        told = true;
        dcp_warn("device memory is used up: further blocks are in host memory");
    }
    return cu;
}

static CUresult
obtain(struct dcp_owner *owner, size_t bytes, enum dcp_heap_kind kind,
       struct dcp_piece **out)
{
    CUresult cu;

    *out = search(owner, bytes, kind);
    if (*out == NULL)
        *out = borrow(owner, bytes, kind);
    if (*out)
        return CUDA_SUCCESS;
    if (should_compact(chunk_bytes(bytes, kind)))
        cu = reframe(owner, bytes, kind, out);
    else
        cu = grow(owner, bytes, kind, out);
    if (cu != CUDA_ERROR_OUT_OF_MEMORY)
        return cu;
    if (dcp_heap_shed(round_up(bytes, dcp_heap.page), false))
        cu = grow(owner, bytes, kind, out);
    if (cu == CUDA_ERROR_OUT_OF_MEMORY && could_reframe(bytes))
        cu = reframe(owner, bytes, kind, out);
    if (cu == CUDA_ERROR_OUT_OF_MEMORY)
        cu = spill(owner, bytes, kind, out);
    return cu;
}

CUresult
dcp_heap_miss(struct dcp_owner *owner, size_t bytes, enum dcp_heap_kind kind,
              struct dcp_piece **out)
{
    size_t align = bytes >= dcp_heap.large ? dcp_heap.page : 1;

    dcp_bin_flush(owner, kind);
    dcp_bin_flush(dcp_heap.nobody, kind);
    CUresult cu = obtain(owner, bytes, kind, out);
    if (cu != CUDA_SUCCESS)
        return cu;
    *out = dcp_piece_carve(*out, bytes, align);
    return *out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}
