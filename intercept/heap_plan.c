/* SPDX-License-Identifier: Apache-2.0 */
/* The planned range: the upper half of the space, backed from its start by a
 * row of frames. What lives in it is the business of whoever asked for it. */
#include "config.h"

#include "src/alloc.h"

#include "intercept/heap_core.h"
#include "intercept/hook.h"
#include "intercept/space.h"

#include <sys/mman.h>

#define PART ((size_t)256 << 20)

static struct {
    atomic_ullong base;   /* 0: nobody plans */
    atomic_size_t bytes;
    const struct dcp_arena_ops *ops;
    CUdeviceptr start;
    struct dcp_frame *frames; /* in order, without gaps; NULL before use */
    size_t count, most;
    atomic_bool host;     /* one of them is in host memory */
} plan;

/* One entry a page would do for the worst case; only used ones cost. */
static bool
frames_reserve(void)
{
    size_t bytes;

    if (plan.frames)
        return true;
    dcp_space_plan(&plan.start, &bytes);
    plan.most = bytes / dcp_heap.page;
    plan.frames = dcp_map(plan.most * sizeof *plan.frames);
    return plan.frames != NULL;
}

static size_t
backed(void)
{
    if (plan.count == 0)
        return 0;
    const struct dcp_frame *last = &plan.frames[plan.count - 1];
    return last->at + last->bytes - plan.start;
}

static CUresult
part_add(CUdeviceptr at, size_t bytes)
{
    struct dcp_frame *frame = &plan.frames[plan.count];
    CUresult cu = dcp_frame_back(frame, at, bytes, false);

    if (cu == CUDA_ERROR_OUT_OF_MEMORY) {
        if (dcp_heap_wait() == CUDA_SUCCESS)
            dcp_heap_settle();
        if (dcp_heap_shed(bytes, false))
            cu = dcp_frame_back(frame, at, bytes, false);
    }
    if (cu == CUDA_ERROR_OUT_OF_MEMORY && dcp_heap.options.spill)
        cu = dcp_frame_back(frame, at, bytes, true);
    if (cu == CUDA_SUCCESS) {
        plan.count++;
        if (frame->host)
            atomic_store(&plan.host, true);
    }
    return cu;
}

/* A frame that cannot be unmapped stays, and those before it. */
static void
cut_back(size_t count)
{
    while (plan.count > count &&
           dcp_frame_release(&plan.frames[plan.count - 1]) == CUDA_SUCCESS)
        plan.count--;
    bool host = false;
    for (size_t i = 0; i < plan.count; i++)
        host |= plan.frames[i].host;
    atomic_store(&plan.host, host);
}

static CUresult
extend(size_t bytes)
{
    size_t count = plan.count;

    dcp_frame_settle();
    for (size_t at = backed(); at < bytes;) {
        size_t part = bytes - at < PART ? bytes - at : PART;
        CUresult cu = part_add(plan.start + at, part);

        if (cu != CUDA_SUCCESS) {
            cut_back(count);
            return cu;
        }
        at += part;
    }
    return CUDA_SUCCESS;
}

static CUresult
range_make(size_t bytes, const struct dcp_arena_ops *ops, CUdeviceptr *base)
{
    if (!dcp_heap.on)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (plan.ops && plan.ops->used())
        return CUDA_ERROR_INVALID_VALUE;
    if (!frames_reserve() || bytes > plan.most * dcp_heap.page)
        return CUDA_ERROR_OUT_OF_MEMORY;
    bytes = (bytes + dcp_heap.page - 1) & ~(dcp_heap.page - 1);
    CUresult cu = extend(bytes);
    if (cu != CUDA_SUCCESS)
        return cu;
    plan.ops = ops;
    atomic_store(&plan.bytes, backed());
    atomic_store(&plan.base, plan.start);
    *base = plan.start;
    return CUDA_SUCCESS;
}

CUresult
dcp_heap_plan_range(size_t bytes, const struct dcp_arena_ops *ops,
                    CUdeviceptr *base)
{
    if (bytes == 0 || ops == NULL || base == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    dcp_lock_take(&dcp_heap.lock);
    CUresult cu = range_make(bytes, ops, base);
    dcp_lock_give(&dcp_heap.lock);
    return cu;
}

static void
range_drop(void)
{
    atomic_store(&plan.base, 0);
    atomic_store(&plan.bytes, 0);
    plan.ops = NULL;
    cut_back(0);
}

void
dcp_plan_forget(void)
{
    if (plan.frames == NULL)
        return;
    range_drop();
    munmap(plan.frames, plan.most * sizeof *plan.frames);
    plan.frames = NULL;
    plan.count = 0;
}

void
dcp_heap_plan_drop(void)
{
    dcp_lock_take(&dcp_heap.lock);
    if (plan.ops && plan.ops->used() == 0)
        range_drop();
    dcp_lock_give(&dcp_heap.lock);
}

static bool
is_planned(CUdeviceptr address)
{
    CUdeviceptr base = atomic_load_explicit(&plan.base, memory_order_acquire);

    return base && address - base < atomic_load_explicit(
                                        &plan.bytes, memory_order_relaxed);
}

static bool
touches_host(const struct dcp_block *block)
{
    bool host = false;

    dcp_lock_take(&dcp_heap.lock);
    for (size_t i = 0; i < plan.count && !host; i++) {
        const struct dcp_frame *frame = &plan.frames[i];

        host = frame->host && frame->at < block->base + block->bytes &&
               block->base < frame->at + frame->bytes;
    }
    dcp_lock_give(&dcp_heap.lock);
    return host;
}

bool
dcp_plan_find(CUdeviceptr address, struct dcp_block *out)
{
    if (!is_planned(address) || !plan.ops->find(address, out))
        return false;
    if (atomic_load_explicit(&plan.host, memory_order_relaxed))
        out->host = touches_host(out);
    return true;
}

CUresult
dcp_plan_free(CUdeviceptr base, CUstream stream)
{
    return is_planned(base) ? plan.ops->free(base, stream)
                              : CUDA_ERROR_INVALID_VALUE;
}

size_t
dcp_plan_used(void)
{
    return atomic_load(&plan.base) ? plan.ops->used() : 0;
}

void
dcp_plan_each(void (*visit)(const struct dcp_block *, void *), void *user)
{
    if (atomic_load(&plan.base))
        plan.ops->each(visit, user);
}

void
dcp_plan_each_range(void (*visit)(CUdeviceptr base, size_t bytes, void *),
                    void *user)
{
    for (size_t i = 0; atomic_load(&plan.base) && i < plan.count; i++)
        visit(plan.frames[i].at, plan.frames[i].bytes, user);
}
