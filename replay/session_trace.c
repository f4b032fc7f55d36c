/* SPDX-License-Identifier: Apache-2.0 */
/* What the trace says about the process as a whole. */
#include "config.h"

#include "replay/session.h"

#include "intercept/heap.h"
#include "src/log.h"
#include "src/stack.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static void
trace_file(enum dcp_trace_kind kind, const char *path, const uint64_t *fields,
           unsigned count)
{
    char text[16384];
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return;
    ssize_t bytes = read(fd, text, sizeof text);
    close(fd);
    if (bytes > 0)
        dcp_trace_put(dcp_session.trace, kind, fields, count, text,
                      (size_t)bytes);
}

/* Runs at exit, when the driver may be gone: only the file is touched. */
static void
trace_end(void)
{
    struct dcp_session *s = &dcp_session;
    uint64_t fields[] = {s->iterations, s->followed};

    dcp_trace_put(s->trace, DCP_TRACE_END, fields, 2, NULL, 0);
    dcp_trace_close(s->trace);
    s->trace = NULL;
}

void
dcp_session_trace_start(struct dcp_session *s, int rank, int world)
{
    struct timespec wall;

    clock_gettime(CLOCK_REALTIME, &wall);
    uint64_t fields[] = {(uint64_t)getpid(), (uint64_t)rank, (uint64_t)world,
                         (uint64_t)wall.tv_sec * 1000000000u +
                             (uint64_t)wall.tv_nsec};
    trace_file(DCP_TRACE_START, "/proc/self/cmdline", fields, 4);
    if (getenv("DC_CONFIG"))
        trace_file(DCP_TRACE_CONFIG, getenv("DC_CONFIG"), NULL, 0);
    if (s->trace)
        atexit(trace_end);
}

static void
device_put(struct dcp_session *s)
{
    char name[256] = "?";
    int sms = 0;
    size_t total = 0, granularity = 0;
    CUdevice device = 0;
    CUmemAllocationProp prop = {
        .type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE},
    };

    if (dcp_real.cuCtxGetDevice)
        dcp_real.cuCtxGetDevice(&device);
    prop.location.id = device;
    dcp_real.cuDeviceGetName(name, sizeof name, device);
    dcp_real.cuDeviceGetAttribute(
        &sms, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device);
    dcp_real.cuDeviceTotalMem_v2(&total, device);
    dcp_real.cuMemGetAllocationGranularity(
        &granularity, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
    uint64_t fields[] = {total, (uint64_t)sms, granularity};
    dcp_trace_put(s->trace, DCP_TRACE_DEVICE, fields, 3, name, strlen(name));
}

static void
heap_event(enum dcp_heap_event_kind kind, const struct dcp_block *block,
           CUstream stream, uint64_t reserved)
{
    struct dcp_session *s = &dcp_session;
    uint64_t phase = (uint64_t)atomic_load(&s->phase);

    (void)reserved;
    if (kind == DCP_HEAP_ALLOC) {
        uint64_t fields[] = {block->id,
                             block->base,
                             block->bytes,
                             (uint64_t)stream,
                             dcp_stack_take(2),
                             phase,
                             block->host};
        dcp_trace_put(s->trace, DCP_TRACE_ALLOC, fields, 7, NULL, 0);
    } else {
        uint64_t fields[] = {block->id, (uint64_t)stream, phase};
        dcp_trace_put(s->trace, DCP_TRACE_FREE, fields, 3, NULL, 0);
    }
}

void
dcp_session_trace_memory(struct dcp_session *s)
{
    struct dcp_heap_stats stats;
    static bool begun;

    if (!s->trace)
        return;
    if (!begun) {
        begun = true;
        device_put(s);
    }
    dcp_heap_get_stats(&stats);
    uint64_t fields[] = {stats.used, stats.reserved, stats.host};
    dcp_trace_put(s->trace, DCP_TRACE_MEMORY, fields, 3, NULL, 0);
}

void
dcp_session_trace_heap(struct dcp_session *s)
{
    if (!s->trace)
        return;
    if (s->config.trace_stacks)
        dcp_stack_begin(s->trace, s->config.trace_stacks);
    dcp_heap_event(heap_event);
}
