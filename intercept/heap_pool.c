/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "intercept/heap_pool.h"

#include "src/lock.h"

#include "intercept/frame.h"
#include "intercept/heap.h"
#include "intercept/heap_own.h"
#include "intercept/hook.h"

enum { DEFAULT_POOL = 1, CURRENT_UNKNOWN = DCP_HEAP_POOLS };

static struct {
    struct dcp_lock lock;
    CUmemoryPool handle[DCP_HEAP_POOLS]; /* [0] stays NULL */
    atomic_uint current; /* number, or CURRENT_UNKNOWN */
} pools = { .current = CURRENT_UNKNOWN };

/* Pools are few and mostly the first one is meant. */
static unsigned
number_of(CUmemoryPool pool)
{
    for (unsigned i = DEFAULT_POOL; i < DCP_HEAP_POOLS; i++)
        if (pools.handle[i] == pool)
            return i;
    return 0;
}

static void
default_learn(void)
{
    CUdevice device;

    if (pools.handle[DEFAULT_POOL] == NULL &&
        dcp_real.cuDeviceGetDefaultMemPool &&
        dcp_real.cuCtxGetDevice(&device) == CUDA_SUCCESS)
        dcp_real.cuDeviceGetDefaultMemPool(&pools.handle[DEFAULT_POOL],
                                           device);
}

unsigned
dcp_pool_number(CUmemoryPool pool)
{
    if (pool == NULL)
        return 0;
    dcp_lock_take(&pools.lock);
    default_learn();
    unsigned number = number_of(pool);
    dcp_lock_give(&pools.lock);
    return number;
}

unsigned
dcp_pool_current(void)
{
    unsigned number =
        atomic_load_explicit(&pools.current, memory_order_relaxed);
    CUmemoryPool pool = NULL;
    CUdevice device;

    if (number != CURRENT_UNKNOWN)
        return number;
    if (dcp_real.cuDeviceGetMemPool == NULL ||
        dcp_real.cuCtxGetDevice(&device) ||
        dcp_real.cuDeviceGetMemPool(&pool, device))
        return 0;
    number = dcp_pool_number(pool);
    atomic_store(&pools.current, number);
    return number;
}

CUmemoryPool
dcp_pool_handle(unsigned number)
{
    return number < DCP_HEAP_POOLS ? pools.handle[number] : NULL;
}

static bool
is_plain(const CUmemPoolProps *props)
{
    CUdevice device;

    return dcp_heap_serves() &&
           dcp_real.cuCtxGetDevice(&device) == CUDA_SUCCESS &&
           props->allocType == CU_MEM_ALLOCATION_TYPE_PINNED &&
           props->handleTypes == CU_MEM_HANDLE_TYPE_NONE &&
           props->location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
           props->location.id == device && props->maxSize == 0;
}

/* A number serves again only when no block of its last pool is alive. */
static void
pool_add(CUmemoryPool pool)
{
    size_t now, peak;

    dcp_lock_take(&pools.lock);
    for (unsigned i = DEFAULT_POOL + 1; i < DCP_HEAP_POOLS; i++) {
        if (pools.handle[i])
            continue;
        dcp_heap_pool_use(i, &now, &peak);
        if (now == 0) {
            dcp_heap_pool_reset_peak(i);
            pools.handle[i] = pool;
            break;
        }
    }
    dcp_lock_give(&pools.lock);
}

CUresult
dcp_own_cuMemPoolCreate(const struct dcp_hook_info *info,
                        struct dcp_args_cuMemPoolCreate *args)
{
    (void)info;
    CUresult cu = DCP_ASK(cuMemPoolCreate, args->pool, args->poolProps);

    if (cu == CUDA_SUCCESS && is_plain(args->poolProps))
        pool_add(*args->pool);
    return cu;
}

CUresult
dcp_own_cuMemPoolDestroy(const struct dcp_hook_info *info,
                         struct dcp_args_cuMemPoolDestroy *args)
{
    (void)info;
    CUresult cu = DCP_ASK(cuMemPoolDestroy, args->pool);

    if (cu == CUDA_SUCCESS) {
        dcp_lock_take(&pools.lock);
        unsigned number = number_of(args->pool);
        if (number > DEFAULT_POOL)
            pools.handle[number] = NULL;
        dcp_lock_give(&pools.lock);
        /* The device falls back to its default pool. */
        atomic_store(&pools.current, CURRENT_UNKNOWN);
    }
    return cu;
}

CUresult
dcp_own_cuDeviceSetMemPool(const struct dcp_hook_info *info,
                           struct dcp_args_cuDeviceSetMemPool *args)
{
    (void)info;
    CUresult cu = DCP_ASK(cuDeviceSetMemPool, args->dev, args->pool);

    atomic_store(&pools.current, CURRENT_UNKNOWN);
    return cu;
}

/* Adds the heap's share to what the driver counts for the pool. */
static void
figure_add(unsigned number, CUmemPool_attribute attr, cuuint64_t *value)
{
    struct dcp_heap_stats stats;
    size_t now, peak;

    dcp_heap_get_stats(&stats);
    dcp_heap_pool_use(number, &now, &peak);
    if (number == DEFAULT_POOL) {
        now += stats.planned;
        peak = peak < now ? now : peak;
    }
    if (attr == CU_MEMPOOL_ATTR_USED_MEM_CURRENT)
        *value += now;
    else if (attr == CU_MEMPOOL_ATTR_USED_MEM_HIGH)
        *value += peak;
    else if (attr == CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT)
        *value += stats.reserved + stats.host;
    else if (attr == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH)
        *value += stats.reserved_peak + stats.host_peak;
}

CUresult
dcp_own_cuMemPoolGetAttribute(const struct dcp_hook_info *info,
                              struct dcp_args_cuMemPoolGetAttribute *args)
{
    (void)info;
    CUresult cu =
        DCP_ASK(cuMemPoolGetAttribute, args->pool, args->attr, args->value);
    unsigned number = dcp_pool_number(args->pool);

    if (cu == CUDA_SUCCESS && number)
        figure_add(number, args->attr, args->value);
    return cu;
}

CUresult
dcp_own_cuMemPoolSetAttribute(const struct dcp_hook_info *info,
                              struct dcp_args_cuMemPoolSetAttribute *args)
{
    (void)info;
    CUresult cu =
        DCP_ASK(cuMemPoolSetAttribute, args->pool, args->attr, args->value);
    unsigned number = dcp_pool_number(args->pool);

    if (cu != CUDA_SUCCESS || number == 0)
        return cu;
    if (args->attr == CU_MEMPOOL_ATTR_USED_MEM_HIGH)
        dcp_heap_pool_reset_peak(number);
    else if (args->attr == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH)
        dcp_heap_reset_peak();
    return cu;
}

CUresult
dcp_own_cuMemPoolTrimTo(const struct dcp_hook_info *info,
                        struct dcp_args_cuMemPoolTrimTo *args)
{
    (void)info;
    if (dcp_pool_number(args->pool) && dcp_heap_serves() &&
        atomic_load(&dcp_heap_captures) == 0 &&
        dcp_real.cuCtxSynchronize() == CUDA_SUCCESS)
        dcp_heap_trim(args->minBytesToKeep);
    return DCP_ASK(cuMemPoolTrimTo, args->pool, args->minBytesToKeep);
}
