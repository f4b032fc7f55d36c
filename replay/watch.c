/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "replay/watch.h"

#include "intercept/hook.h"
#include "src/clock.h"

#include <stdatomic.h>
#include <string.h>

enum { TOTALS_EVERY_NS = 500000000 };

static struct dcp_trace *watch_trace;
static struct {
    _Atomic uint64_t count, ns;
} totals[DCP_HOOK_COUNT];
static _Atomic uint64_t totals_at;
static __thread uint64_t call_begin;

/* The totals so far; a later record replaces an earlier one. */
static void
totals_put(uint64_t now)
{
    uint64_t last = atomic_load_explicit(&totals_at, memory_order_relaxed);

    if (now - last < TOTALS_EVERY_NS ||
        !atomic_compare_exchange_strong(&totals_at, &last, now))
        return;
    for (unsigned i = 0; i < DCP_HOOK_COUNT; i++) {
        uint64_t fields[] = {i, atomic_load(&totals[i].count),
                             atomic_load(&totals[i].ns)};
        const char *name = dcp_hook_info[i].symbol;
        if (fields[1])
            dcp_trace_put(watch_trace, DCP_TRACE_CALL, fields, 3, name,
                          strlen(name));
    }
}

static bool
watch_before(const struct dcp_hook_info *info, void *args, CUresult *result)
{
    (void)info;
    (void)args;
    (void)result;
    call_begin = dcp_now_ns();
    return false;
}

/* The driver's own addresses serve as block numbers: unique while they live. */
static void
watch_memory(const struct dcp_hook_info *info, void *args)
{
    CUdeviceptr address = 0;
    uint64_t bytes = 0, stream = 0;

    switch (info->canon) {
    case DCP_HOOK_cuMemAlloc_v2: {
        struct dcp_args_cuMemAlloc_v2 *a = args;
        address = *a->dptr;
        bytes = a->bytesize;
        break;
    }
    case DCP_HOOK_cuMemAllocAsync: {
        struct dcp_args_cuMemAllocAsync *a = args;
        address = *a->dptr;
        bytes = a->bytesize;
        stream = (uint64_t)a->hStream;
        break;
    }
    case DCP_HOOK_cuMemFree_v2: {
        uint64_t fields[] = {((struct dcp_args_cuMemFree_v2 *)args)->dptr, 0, 0};
        dcp_trace_put(watch_trace, DCP_TRACE_FREE, fields, 3, NULL, 0);
        return;
    }
    case DCP_HOOK_cuMemFreeAsync: {
        struct dcp_args_cuMemFreeAsync *a = args;
        uint64_t fields[] = {a->dptr, (uint64_t)a->hStream, 0};
        dcp_trace_put(watch_trace, DCP_TRACE_FREE, fields, 3, NULL, 0);
        return;
    }
    default:
        return;
    }
    uint64_t fields[] = {address, address, bytes, stream, 0, 0, 0};
    dcp_trace_put(watch_trace, DCP_TRACE_ALLOC, fields, 7, NULL, 0);
}

static void
watch_after(const struct dcp_hook_info *info, void *args, CUresult *result)
{
    uint64_t now = dcp_now_ns();

    atomic_fetch_add_explicit(&totals[info->id].count, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&totals[info->id].ns, now - call_begin,
                              memory_order_relaxed);
    if (*result == CUDA_SUCCESS && (info->class == DCP_CLASS_ALLOC ||
                                    info->class == DCP_CLASS_FREE))
        watch_memory(info, args);
    totals_put(now);
}

void
dcp_watch_start(struct dcp_trace *trace)
{
    static const struct dcp_sink sink = {watch_before, watch_after};

    if (!trace)
        return;
    watch_trace = trace;
    dcp_hook_listen(&sink);
}
