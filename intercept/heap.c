/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "intercept/heap.h"

#include "src/log.h"

#include "intercept/heap_core.h"
#include "intercept/hook.h"
#include "intercept/space.h"

#include <string.h>

#define MIB ((size_t)1 << 20)
#define TIB ((size_t)1 << 40)

struct dcp_heap dcp_heap;
atomic_int dcp_heap_captures;

void
dcp_heap_configure(const struct dcp_heap_options *options)
{
    dcp_lock_take(&dcp_heap.lock);
    dcp_heap.options = *options;
    dcp_frame_limit(options->budget);
    dcp_lock_give(&dcp_heap.lock);
}

static CUresult
open_space(CUdevice device)
{
    size_t total = 0, want = TIB;
    CUresult cu = dcp_real.cuDeviceTotalMem_v2(&total, device);

    if (cu != CUDA_SUCCESS)
        return cu;
    if (want < total * 8)
        want = total * 8;
    return dcp_space_open(want, total * 2, dcp_frame_page());
}

/* Once a context exists. A program without one gets the driver's own error. */
static CUresult
start(void)
{
    CUdevice device;
    CUresult cu = dcp_real.cuCtxGetDevice(&device);

    if (cu != CUDA_SUCCESS)
        return cu;
    dcp_heap.tried = true;
    cu = dcp_frame_setup(device);
    if (cu == CUDA_SUCCESS)
        cu = open_space(device);
    if (cu == CUDA_SUCCESS && !dcp_owner_start()) {
        dcp_space_close();
        cu = CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (cu != CUDA_SUCCESS) {
        dcp_warn("no virtual range for the heap (error %d): allocations are "
                 "left to the driver", (int)cu);
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    dcp_heap.page = dcp_frame_page();
    dcp_heap.large = dcp_heap.options.large_bytes;
    if (dcp_heap.large == 0)
        dcp_heap.large = 16 * MIB;
    if (dcp_heap.large < dcp_heap.page)
        dcp_heap.large = dcp_heap.page;
    dcp_heap.on = true;
    return CUDA_SUCCESS;
}

/* Asking for the primary context would make one where there is none. */
static bool
is_primary(CUcontext context)
{
    CUdevice device;
    CUcontext primary;
    unsigned flags;
    int active = 0;

    if (dcp_real.cuCtxGetDevice(&device) ||
        dcp_real.cuDevicePrimaryCtxGetState(device, &flags, &active) ||
        !active || dcp_real.cuDevicePrimaryCtxRetain(&primary, device))
        return false;
    dcp_real.cuDevicePrimaryCtxRelease_v2(device);
    return primary == context;
}

bool
dcp_heap_serves(void)
{
    CUcontext now = NULL;
    uintptr_t ours = 0;

    if (dcp_real.cuCtxGetCurrent(&now) || now == NULL)
        return false;
    ours = atomic_load_explicit(&dcp_heap.context, memory_order_relaxed);
    if (ours)
        return ours == (uintptr_t)now;
    if (!is_primary(now))
        return false;
    return atomic_compare_exchange_strong(&dcp_heap.context, &ours,
                                          (uintptr_t)now) ||
           ours == (uintptr_t)now;
}

CUcontext
dcp_heap_context(void)
{
    return (CUcontext)atomic_load(&dcp_heap.context);
}

static size_t
rounded(size_t bytes, enum dcp_heap_kind *kind)
{
    size_t unit = dcp_heap.page;

    *kind = DCP_HEAP_BIG;
    if (bytes < dcp_heap.large) {
        if (bytes <= MIB)
            *kind = DCP_HEAP_SMALL;
        unit = (size_t)1 << dcp_heap_shift(*kind);
    }
    return (bytes + unit - 1) & ~(unit - 1);
}

static void
describe(const struct dcp_piece *piece, struct dcp_block *out)
{
    *out = (struct dcp_block){ piece->base, piece->asked, piece->id,
                               piece->chunk->frame.host, piece->tag };
}

static void
announce(enum dcp_heap_event_kind kind, const struct dcp_piece *piece,
         CUstream stream)
{
    struct dcp_block block;
    struct dcp_frame_stats frames;

    describe(piece, &block);
    dcp_frame_get_stats(&frames);
    dcp_heap.listener(kind, &block, stream, frames.device);
}

static void
enliven(struct dcp_piece *piece, size_t asked, unsigned pool)
{
    piece->state = DCP_PIECE_LIVE;
    piece->tag = (uint8_t)pool;
    piece->asked = asked;
    piece->id = ++dcp_heap.next_id;
    piece->chunk->used += piece->bytes;
    dcp_heap.used += piece->bytes;
    if (dcp_heap.used > dcp_heap.used_peak)
        dcp_heap.used_peak = dcp_heap.used;
    dcp_heap.tag_used[pool] += piece->bytes;
    if (dcp_heap.tag_used[pool] > dcp_heap.tag_peak[pool])
        dcp_heap.tag_peak[pool] = dcp_heap.tag_used[pool];
    dcp_heap.allocs++;
}

static CUresult
take(size_t bytes, CUstream stream, bool sync, struct dcp_piece **out)
{
    struct dcp_owner *owner =
        sync ? dcp_heap.nobody : dcp_owner_get(stream);
    enum dcp_heap_kind kind;
    size_t need = rounded(bytes, &kind);

    if (owner == NULL || need < bytes)
        return CUDA_ERROR_OUT_OF_MEMORY;
    struct dcp_bin *bin = dcp_bin_find(owner, need);
    if (__builtin_expect(bin && bin->head, 1)) {
        *out = bin->head;
        bin->head = bin->head->right;
        return CUDA_SUCCESS;
    }
    return dcp_heap_miss(owner, need, kind, out);
}

CUresult
dcp_heap_alloc_pool(size_t bytes, CUstream stream, bool sync, unsigned pool,
                    CUdeviceptr *out)
{
    struct dcp_piece *piece;
    CUresult cu = CUDA_SUCCESS;

    if (bytes == 0 || out == NULL || pool >= DCP_HEAP_POOLS)
        return CUDA_ERROR_INVALID_VALUE;
    dcp_lock_take(&dcp_heap.lock);
    if (__builtin_expect(!dcp_heap.on, 0))
        cu = dcp_heap.tried ? CUDA_ERROR_NOT_SUPPORTED : start();
    if (cu == CUDA_SUCCESS)
        cu = take(bytes, stream, sync, &piece);
    if (cu == CUDA_SUCCESS) {
        enliven(piece, bytes, pool);
        *out = piece->base;
        if (dcp_heap.listener)
            announce(DCP_HEAP_ALLOC, piece, stream);
    }
    dcp_lock_give(&dcp_heap.lock);
    return cu;
}

CUresult
dcp_heap_alloc(size_t bytes, CUstream stream, bool sync, CUdeviceptr *out)
{
    return dcp_heap_alloc_pool(bytes, stream, sync, 0, out);
}

/* From here on the piece is free for the owner; for others when the frees up
 * to `seq` are over. */
static void
retire(struct dcp_piece *piece, struct dcp_owner *owner, uint64_t seq)
{
    struct dcp_chunk *chunk = piece->chunk;

    chunk->used -= piece->bytes;
    dcp_heap.used -= piece->bytes;
    dcp_heap.tag_used[piece->tag] -= piece->bytes;
    dcp_heap.frees++;
    piece->owner = owner;
    piece->seq = seq;
    if (seq)
        owner->last = seq;
    if (chunk->kind >= DCP_HEAP_SMALL_HOST)
        dcp_piece_shelve(piece);
    else
        dcp_bin_push(piece, chunk->kind);
}

static struct dcp_piece *
live_at(CUdeviceptr base)
{
    struct dcp_piece *piece = dcp_piece_at(base);

    return piece && piece->state == DCP_PIECE_LIVE ? piece : NULL;
}

CUresult
dcp_heap_free(CUdeviceptr base, CUstream stream)
{
    CUresult cu = CUDA_ERROR_INVALID_VALUE;

    if (!dcp_space_has(base))
        return CUDA_ERROR_NOT_FOUND;
    if (dcp_space_is_planned(base))
        return dcp_plan_free(base, stream);
    dcp_lock_take(&dcp_heap.lock);
    struct dcp_piece *piece = live_at(base);
    if (piece) {
        struct dcp_owner *owner = dcp_owner_get(stream);

        if (dcp_heap.listener)
            announce(DCP_HEAP_FREE, piece, stream);
        retire(piece, owner ? owner : dcp_heap.limbo, ++dcp_heap.seq);
        cu = CUDA_SUCCESS;
    }
    dcp_lock_give(&dcp_heap.lock);
    return cu;
}

/* Under the lock. What the wait let in between may have freed the block. */
static CUresult
free_waited(CUdeviceptr base)
{
    struct dcp_piece *piece = live_at(base);

    if (piece == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    uint64_t id = piece->id;
    CUresult cu = dcp_heap_wait();
    if (cu != CUDA_SUCCESS && cu != CUDA_ERROR_NOT_PERMITTED)
        return cu;
    piece = live_at(base);
    if (piece == NULL || piece->id != id)
        return CUDA_ERROR_INVALID_VALUE;
    if (dcp_heap.listener)
        announce(DCP_HEAP_FREE, piece, NULL);
    struct dcp_chunk *chunk = piece->chunk;
    if (cu == CUDA_SUCCESS)
        retire(piece, dcp_heap.nobody, 0);
    else
        retire(piece, dcp_heap.limbo, ++dcp_heap.seq);
    /* What a program frees in this way it means to give back. */
    if (chunk->used == 0 && chunk->bytes >= 32 * MIB)
        dcp_heap_drop(chunk);
    return CUDA_SUCCESS;
}

CUresult
dcp_heap_free_sync(CUdeviceptr base)
{
    if (!dcp_space_has(base))
        return CUDA_ERROR_NOT_FOUND;
    if (dcp_space_is_planned(base)) {
        CUresult cu = CUDA_SUCCESS;

        if (atomic_load(&dcp_heap_captures) == 0)
            cu = dcp_real.cuCtxSynchronize();
        return cu == CUDA_SUCCESS ? dcp_plan_free(base, CU_STREAM_LEGACY) : cu;
    }
    dcp_lock_take(&dcp_heap.lock);
    CUresult cu = free_waited(base);
    dcp_lock_give(&dcp_heap.lock);
    return cu;
}

bool
dcp_heap_find(CUdeviceptr address, struct dcp_block *out)
{
    bool found = false;

    if (!dcp_space_has(address))
        return false;
    if (dcp_space_is_planned(address))
        return dcp_plan_find(address, out);
    dcp_lock_take(&dcp_heap.lock);
    struct dcp_piece *piece = dcp_piece_around(address);
    if (piece && piece->state == DCP_PIECE_LIVE &&
        address - piece->base < piece->asked) {
        describe(piece, out);
        found = true;
    }
    dcp_lock_give(&dcp_heap.lock);
    return found;
}

bool
dcp_heap_owns(CUdeviceptr address)
{
    return dcp_space_has(address);
}

void
dcp_heap_range(CUdeviceptr *base, size_t *bytes)
{
    dcp_space_get(base, bytes);
}

size_t
dcp_heap_trim(size_t keep)
{
    size_t freed = 0;

    dcp_lock_take(&dcp_heap.lock);
    if (dcp_heap.on) {
        dcp_heap.idle = dcp_heap.seq;
        dcp_heap_settle();
        size_t unused = dcp_heap_unused(false);
        if (unused > keep)
            freed = dcp_heap_shed(unused - keep, false);
        dcp_heap_shed(SIZE_MAX, true);
    }
    dcp_lock_give(&dcp_heap.lock);
    return freed;
}

void
dcp_heap_each(void (*visit)(const struct dcp_block *, void *), void *user)
{
    struct dcp_block block;
    CUdeviceptr at = 0;

    dcp_lock_take(&dcp_heap.lock);
    while (dcp_heap.on && (at = dcp_space_next(at)) != 0) {
        struct dcp_chunk *chunk = dcp_space_owner(at);

        for (struct dcp_piece *piece = chunk->at[0]; piece;
             piece = piece->next)
            if (piece->state == DCP_PIECE_LIVE) {
                describe(piece, &block);
                visit(&block, user);
            }
        at = chunk->base + chunk->bytes;
    }
    dcp_lock_give(&dcp_heap.lock);
    dcp_plan_each(visit, user);
}

void
dcp_heap_each_range(void (*visit)(CUdeviceptr base, size_t bytes, void *),
                    void *user)
{
    dcp_lock_take(&dcp_heap.lock);
    for (struct dcp_chunk *chunk = dcp_heap.chunks; dcp_heap.on && chunk;
         chunk = chunk->next)
        visit(chunk->base, chunk->bytes, user);
    dcp_lock_give(&dcp_heap.lock);
    dcp_plan_each_range(visit, user);
}

void
dcp_heap_get_stats(struct dcp_heap_stats *out)
{
    struct dcp_frame_stats frames;

    dcp_lock_take(&dcp_heap.lock);
    *out = (struct dcp_heap_stats){
        .used = dcp_heap.used, .used_peak = dcp_heap.used_peak,
        .unused = dcp_heap_unused(false),
        .allocs = dcp_heap.allocs, .frees = dcp_heap.frees,
    };
    dcp_lock_give(&dcp_heap.lock);
    dcp_frame_get_stats(&frames);
    out->planned = dcp_plan_used();
    out->used += out->planned;
    if (out->used_peak < out->used)
        out->used_peak = out->used;
    out->reserved = frames.device;
    out->reserved_peak = frames.device_peak;
    out->host = frames.host;
    out->host_peak = frames.host_peak;
}

void
dcp_heap_reset_peak(void)
{
    dcp_lock_take(&dcp_heap.lock);
    dcp_heap.used_peak = dcp_heap.used;
    dcp_lock_give(&dcp_heap.lock);
    dcp_frame_reset_peak();
}

void
dcp_heap_pool_use(unsigned pool, size_t *now, size_t *peak)
{
    dcp_lock_take(&dcp_heap.lock);
    *now = dcp_heap.tag_used[pool];
    *peak = dcp_heap.tag_peak[pool];
    dcp_lock_give(&dcp_heap.lock);
}

void
dcp_heap_pool_reset_peak(unsigned pool)
{
    dcp_lock_take(&dcp_heap.lock);
    dcp_heap.tag_peak[pool] = dcp_heap.tag_used[pool];
    dcp_lock_give(&dcp_heap.lock);
}

void
dcp_heap_event(dcp_heap_listener *listener)
{
    dcp_lock_take(&dcp_heap.lock);
    dcp_heap.listener = listener;
    dcp_lock_give(&dcp_heap.lock);
}

void
dcp_heap_stream_gone(CUstream stream)
{
    dcp_lock_take(&dcp_heap.lock);
    if (dcp_heap.on)
        dcp_owner_retire(stream);
    dcp_lock_give(&dcp_heap.lock);
}

static void
reset(bool gone)
{
    dcp_lock_take(&dcp_heap.lock);
    if (dcp_heap.on) {
        dcp_plan_forget();
        dcp_chunk_forget();
        dcp_owner_forget(gone);
        dcp_bin_forget();
        dcp_arena_release(&dcp_heap.arena);
        dcp_space_close();
        memset(dcp_heap.tag_used, 0, sizeof dcp_heap.tag_used);
        dcp_heap.used = 0;
        dcp_heap.on = false;
    }
    atomic_store(&dcp_heap.context, 0);
    dcp_heap.tried = false;
    dcp_lock_give(&dcp_heap.lock);
}

void
dcp_heap_reset(void)
{
    reset(false);
}

void
dcp_heap_forget(void)
{
    reset(true);
}
