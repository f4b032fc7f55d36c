/* SPDX-License-Identifier: Apache-2.0 */
/* Contexts: the primary one of each device, created ones, and each thread's
 * stack of current ones. */
#include "sim.h"

#include <stdlib.h>
#include <string.h>

struct sim_ctx *
sim_ctx_current(void)
{
    return sim_thread.depth ? sim_thread.stack[sim_thread.depth - 1] : NULL;
}

struct sim_ctx *
sim_ctx_get(CUcontext handle)
{
    return handle ? sim_object_get(handle, SIM_CTX) : sim_ctx_current();
}

CUcontext
sim_ctx_handle(struct sim_ctx *ctx)
{
    return (CUcontext)ctx;
}

void
sim_ctx_begin(struct sim_ctx *ctx)
{
    static uint64_t ages;
    ctx->age = ++ages;
    ctx->error = CUDA_SUCCESS;
    ctx->legacy = sim_stream_new(ctx, CU_STREAM_DEFAULT, 0);
    ctx->legacy->legacy = true;
}

struct sim_ctx *
sim_ctx_new(struct sim_device *device, unsigned flags)
{
    struct sim_ctx *ctx = sim_object_new(SIM_CTX, sizeof *ctx);
    ctx->device = device;
    ctx->flags = flags;
    ctx->limits[CU_LIMIT_STACK_SIZE] = 1024;
    ctx->limits[CU_LIMIT_PRINTF_FIFO_SIZE] = 7340032;
    ctx->limits[CU_LIMIT_MALLOC_HEAP_SIZE] = 8388608;
    ctx->limits[CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH] = 2;
    ctx->limits[CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT] = 2048;
    ctx->limits[CU_LIMIT_MAX_L2_FETCH_GRANULARITY] = 64;
    sim_ctx_begin(ctx);
    return ctx;
}

void
sim_ctx_wait(struct sim_ctx *ctx)
{
    while (ctx->pending > 0) {
        struct sim_op *op = NULL;
        for (struct sim_stream *s = ctx->streams; s && op == NULL; s = s->next)
            if (sim_op_busy(s->tail))
                op = sim_op_ref(s->tail);
        if (op == NULL) {
            sim_op_wait_any(); /* of a stream that is gone */
            continue;
        }
        sim_op_wait(op);
        sim_op_drop(op);
    }
}

/* Takes the context's streams and functions away. Its memory goes with it on
 * the real driver; here the ranges stay until the process ends, unusable. */
void
sim_ctx_clear(struct sim_ctx *ctx)
{
    if (ctx->error == CUDA_SUCCESS)
        sim_ctx_wait(ctx);
    sim_module_forget(ctx);
    while (ctx->streams)
        sim_stream_free(ctx->streams);
    for (struct sim_range *r = sim_range_next(0), *next; r; r = next) {
        next = sim_range_next(r->base + r->bytes);
        if (r->ctx != ctx || !r->live)
            continue;
        if (r->place == SIM_DEVICE || r->place == SIM_MANAGED) {
            sim_range_remove(r);
            r->device->used -= r->held;
            sim_arena_free((void *)r->base, r->held);
            free(r);
        } else if (r->place == SIM_POOLED) {
            sim_pool_free(r, NULL);
        }
    }
}

static CUresult
ctx_push(struct sim_ctx *ctx)
{
    if (sim_thread.depth == (int)SIM_COUNT(sim_thread.stack))
        return CUDA_ERROR_INVALID_CONTEXT;
    sim_thread.stack[sim_thread.depth++] = ctx;
    return CUDA_SUCCESS;
}

static struct sim_ctx *
ctx_pop(void)
{
    return sim_thread.stack[--sim_thread.depth];
}

static CUresult
ctx_create(CUcontext *out, unsigned flags, CUdevice handle)
{
    struct sim_device *device = sim_device_get(handle);
    if (out == NULL || (flags & ~(unsigned)CU_CTX_FLAGS_MASK))
        return CUDA_ERROR_INVALID_VALUE;
    if (device == NULL)
        return CUDA_ERROR_INVALID_DEVICE;
    struct sim_ctx *ctx = sim_ctx_new(device, flags);
    *out = sim_ctx_handle(ctx);
    return ctx_push(ctx);
}

CUresult
cuCtxCreate(CUcontext *out, unsigned int flags, CUdevice device)
{
    SIM_API(SIM_INIT);
    return ctx_create(out, flags, device);
}

CUresult
cuCtxCreate_v2(CUcontext *out, unsigned int flags, CUdevice device)
{
    SIM_API(SIM_INIT);
    return ctx_create(out, flags, device);
}

CUresult
cuCtxCreate_v3(CUcontext *out, CUexecAffinityParam *params, int count,
               unsigned int flags, CUdevice device)
{
    SIM_API(SIM_INIT);
    if (params != NULL || count != 0)
        return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
    return ctx_create(out, flags, device);
}

#if CUDA_VERSION >= 12050
CUresult
cuCtxCreate_v4(CUcontext *out, CUctxCreateParams *params, unsigned int flags,
               CUdevice device)
{
    SIM_API(SIM_INIT);
    if (params != NULL &&
        (params->numExecAffinityParams > 0 || params->cigParams != NULL))
        return CUDA_ERROR_NOT_SUPPORTED;
    return ctx_create(out, flags, device);
}
#endif

static CUresult
ctx_destroy(CUcontext handle)
{
    struct sim_ctx *ctx = sim_object_get(handle, SIM_CTX);
    if (handle == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (ctx == NULL || ctx->primary)
        return CUDA_ERROR_INVALID_CONTEXT;
    sim_ctx_clear(ctx);
    if (sim_ctx_current() == ctx)
        ctx_pop();
    for (int i = 0; i < sim_thread.depth; i++)
        if (sim_thread.stack[i] == ctx)
            sim_thread.stack[i] = NULL;
    ctx->legacy = NULL;
    sim_object_retire(ctx);
    return CUDA_SUCCESS;
}

CUresult
cuCtxDestroy(CUcontext ctx)
{
    SIM_API(SIM_INIT);
    return ctx_destroy(ctx);
}

CUresult
cuCtxDestroy_v2(CUcontext ctx)
{
    SIM_API(SIM_INIT);
    return ctx_destroy(ctx);
}

static CUresult
push_current(CUcontext handle)
{
    struct sim_ctx *ctx = sim_object_get(handle, SIM_CTX);
    return ctx ? ctx_push(ctx) : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult
cuCtxPushCurrent(CUcontext ctx)
{
    SIM_API(SIM_INIT);
    return push_current(ctx);
}

CUresult
cuCtxPushCurrent_v2(CUcontext ctx)
{
    SIM_API(SIM_INIT);
    return push_current(ctx);
}

static CUresult
pop_current(CUcontext *out)
{
    if (sim_thread.depth == 0)
        return CUDA_ERROR_INVALID_CONTEXT;
    struct sim_ctx *ctx = ctx_pop();
    if (out)
        *out = sim_ctx_handle(ctx);
    return CUDA_SUCCESS;
}

CUresult
cuCtxPopCurrent(CUcontext *ctx)
{
    SIM_API(SIM_INIT);
    return pop_current(ctx);
}

CUresult
cuCtxPopCurrent_v2(CUcontext *ctx)
{
    SIM_API(SIM_INIT);
    return pop_current(ctx);
}

CUresult
cuCtxSetCurrent(CUcontext handle)
{
    SIM_API(SIM_INIT);
    struct sim_ctx *ctx = NULL;
    if (handle != NULL) {
        ctx = sim_object_get(handle, SIM_CTX);
        if (ctx == NULL)
            return CUDA_ERROR_INVALID_CONTEXT;
    }
    if (sim_thread.depth > 0)
        ctx_pop();
    return ctx ? ctx_push(ctx) : CUDA_SUCCESS;
}

CUresult
cuCtxGetCurrent(CUcontext *out)
{
    SIM_API(SIM_INIT);
    if (out == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *out = sim_ctx_handle(sim_ctx_current());
    return CUDA_SUCCESS;
}

static CUresult
get_device(CUdevice *out, CUcontext handle)
{
    struct sim_ctx *ctx = sim_ctx_get(handle);
    if (out == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (ctx == NULL)
        return CUDA_ERROR_INVALID_CONTEXT;
    *out = ctx->device->ordinal;
    return CUDA_SUCCESS;
}

CUresult
cuCtxGetDevice(CUdevice *device)
{
    SIM_API(SIM_INIT);
    return get_device(device, NULL);
}

CUresult
cuCtxGetDevice_v2(CUdevice *device, CUcontext ctx)
{
    SIM_API(SIM_INIT);
    return get_device(device, ctx);
}

CUresult
cuCtxGetFlags(unsigned int *flags)
{
    SIM_API(SIM_CURRENT);
    if (flags == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *flags = sim_ctx_current()->flags;
    return CUDA_SUCCESS;
}

CUresult
cuCtxSetFlags(unsigned int flags)
{
    SIM_API(SIM_CURRENT);
    sim_ctx_current()->flags = flags;
    return CUDA_SUCCESS;
}

CUresult
cuCtxGetId(CUcontext handle, unsigned long long *id)
{
    SIM_API(SIM_INIT);
    struct sim_ctx *ctx = sim_ctx_get(handle);
    if (ctx == NULL)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (id == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *id = ctx->object.id;
    return CUDA_SUCCESS;
}

static CUresult
ctx_synchronize(CUcontext handle)
{
    struct sim_ctx *ctx = sim_ctx_get(handle);
    if (ctx == NULL)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (ctx->legacy == NULL)
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    if (ctx->error != CUDA_SUCCESS)
        return ctx->error;
    if (sim_capture_in(ctx)) {
        sim_capture_break_ctx(ctx);
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    CUresult result = sim_capture_unsafe();
    if (result != CUDA_SUCCESS)
        return result;
    sim_ctx_wait(ctx);
    sim_pool_settle();
    return ctx->error;
}

CUresult
cuCtxSynchronize(void)
{
    SIM_API(SIM_CURRENT);
    return ctx_synchronize(NULL);
}

CUresult
cuCtxSynchronize_v2(CUcontext ctx)
{
    SIM_API(SIM_INIT);
    return ctx_synchronize(ctx);
}

CUresult
cuCtxSetLimit(CUlimit limit, size_t value)
{
    SIM_API(SIM_CURRENT);
    if ((unsigned)limit >= CU_LIMIT_MAX)
        return CUDA_ERROR_UNSUPPORTED_LIMIT;
    sim_ctx_current()->limits[limit] = value;
    return CUDA_SUCCESS;
}

CUresult
cuCtxGetLimit(size_t *value, CUlimit limit)
{
    SIM_API(SIM_CURRENT);
    if (value == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if ((unsigned)limit >= CU_LIMIT_MAX)
        return CUDA_ERROR_UNSUPPORTED_LIMIT;
    *value = sim_ctx_current()->limits[limit];
    return CUDA_SUCCESS;
}

CUresult
cuCtxGetCacheConfig(CUfunc_cache *config)
{
    SIM_API(SIM_CURRENT);
    if (config == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *config = sim_ctx_current()->cache;
    return CUDA_SUCCESS;
}

CUresult
cuCtxSetCacheConfig(CUfunc_cache config)
{
    SIM_API(SIM_CURRENT);
    sim_ctx_current()->cache = config;
    return CUDA_SUCCESS;
}

CUresult
cuCtxGetSharedMemConfig(CUsharedconfig *config)
{
    SIM_API(SIM_CURRENT);
    if (config == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *config = CU_SHARED_MEM_CONFIG_FOUR_BYTE_BANK_SIZE;
    return CUDA_SUCCESS;
}

CUresult
cuCtxSetSharedMemConfig(CUsharedconfig config)
{
    SIM_API(SIM_CURRENT);
    (void)config;
    return CUDA_SUCCESS;
}

CUresult
cuCtxGetApiVersion(CUcontext handle, unsigned int *version)
{
    SIM_API(SIM_INIT);
    if (sim_ctx_get(handle) == NULL)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (version == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *version = 3020;
    return CUDA_SUCCESS;
}

CUresult
cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
    SIM_API(SIM_CURRENT);
    if (least)
        *least = 0;
    if (greatest)
        *greatest = -5;
    return CUDA_SUCCESS;
}

CUresult
cuCtxResetPersistingL2Cache(void)
{
    SIM_API(SIM_CURRENT);
    return CUDA_SUCCESS;
}

CUresult
cuCtxEnablePeerAccess(CUcontext peer, unsigned int flags)
{
    SIM_API(SIM_CURRENT);
    struct sim_ctx *ctx = sim_object_get(peer, SIM_CTX);
    if (ctx == NULL || ctx->device == sim_ctx_current()->device)
        return CUDA_ERROR_INVALID_DEVICE;
    return flags ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult
cuCtxDisablePeerAccess(CUcontext peer)
{
    SIM_API(SIM_CURRENT);
    struct sim_ctx *ctx = sim_object_get(peer, SIM_CTX);
    return ctx ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult
cuProfilerStart(void)
{
    SIM_API(SIM_CURRENT);
    return CUDA_SUCCESS;
}

CUresult
cuProfilerStop(void)
{
    SIM_API(SIM_CURRENT);
    return CUDA_SUCCESS;
}
