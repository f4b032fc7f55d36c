/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "replay/watch.h"

#include "intercept/hook.h"
#include "replay/session.h"
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
totals_put(void)
{
    for (unsigned i = 0; i < DCP_HOOK_COUNT; i++) {
        uint64_t fields[] = {i, atomic_load(&totals[i].count),
                             atomic_load(&totals[i].ns)};
        const char *name = dcp_hook_info[i].symbol;
        if (fields[1])
            dcp_trace_put(watch_trace, DCP_TRACE_CALL, fields, 3, name,
                          strlen(name));
    }
}

static void
totals_put_now_and_then(uint64_t now)
{
    uint64_t last = atomic_load_explicit(&totals_at, memory_order_relaxed);

    if (now - last >= TOTALS_EVERY_NS &&
        atomic_compare_exchange_strong(&totals_at, &last, now))
        totals_put();
}

/* The driver's own addresses serve as block numbers: unique while they live,
 * since a free is told before it is made. */
static void
watch_free(const struct dcp_hook_info *info, void *args)
{
    uint64_t address = 0, stream = 0;

    if (info->canon == DCP_HOOK_cuMemFree_v2) {
        address = ((struct dcp_args_cuMemFree_v2 *)args)->dptr;
    } else if (info->canon == DCP_HOOK_cuMemFreeAsync) {
        address = ((struct dcp_args_cuMemFreeAsync *)args)->dptr;
        stream = (uint64_t)((struct dcp_args_cuMemFreeAsync *)args)->hStream;
    }
    if (address)
        dcp_trace_event(watch_trace, FREE, NULL, 0, .block = address,
                        .stream = stream);
}

static void
watch_alloc(const struct dcp_hook_info *info, void *args)
{
    uint64_t address = 0, bytes = 0, stream = 0;

    switch (info->canon) {
    case DCP_HOOK_cuMemAlloc_v2: {
        struct dcp_args_cuMemAlloc_v2 *a = args;
        address = *a->dptr;
        bytes = a->bytesize;
        break;
    }
    case DCP_HOOK_cuMemAllocManaged: {
        struct dcp_args_cuMemAllocManaged *a = args;
        address = *a->dptr;
        bytes = a->bytesize;
        break;
    }
    case DCP_HOOK_cuMemAllocPitch_v2: {
        struct dcp_args_cuMemAllocPitch_v2 *a = args;
        address = *a->dptr;
        bytes = *a->pPitch * a->Height;
        break;
    }
    case DCP_HOOK_cuMemAllocAsync: {
        struct dcp_args_cuMemAllocAsync *a = args;
        address = *a->dptr;
        bytes = a->bytesize;
        stream = (uint64_t)a->hStream;
        break;
    }
    case DCP_HOOK_cuMemAllocFromPoolAsync: {
        struct dcp_args_cuMemAllocFromPoolAsync *a = args;
        address = *a->dptr;
        bytes = a->bytesize;
        stream = (uint64_t)a->hStream;
        break;
    }
    default:
        return;
    }
    dcp_session_trace_device(&dcp_session);
    dcp_trace_event(watch_trace, ALLOC, NULL, 0, .block = address,
                    .address = address, .bytes = bytes, .stream = stream);
}

static bool
watch_before(const struct dcp_hook_info *info, void *args, CUresult *result)
{
    (void)result;
    if (info->class == DCP_CLASS_FREE)
        watch_free(info, args);
    call_begin = dcp_now_ns();
    return false;
}

static void
watch_after(const struct dcp_hook_info *info, void *args, CUresult *result)
{
    uint64_t now = dcp_now_ns();

    atomic_fetch_add_explicit(&totals[info->id].count, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&totals[info->id].ns, now - call_begin,
                              memory_order_relaxed);
    if (*result == CUDA_SUCCESS && info->class == DCP_CLASS_ALLOC)
        watch_alloc(info, args);
    totals_put_now_and_then(now);
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

void
dcp_watch_end(void)
{
    if (watch_trace)
        totals_put();
}
