/* SPDX-License-Identifier: Apache-2.0 */
/* What the trace says about the process as a whole. */
#include "config.h"

#include "replay/session.h"

#include "intercept/heap.h"
#include "replay/watch.h"
#include "src/log.h"
#include "src/stack.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static __thread uint64_t last_block;

static void
trace_program(const uint64_t *fields, unsigned count)
{
    char text[16384];
    int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    ssize_t bytes = fd < 0 ? 0 : read(fd, text, sizeof text);

    if (fd >= 0)
        close(fd);
    dcp_trace_put(dcp_session.trace, DCP_TRACE_START, fields, count, text,
                  bytes > 0 ? (size_t)bytes : 0);
}

static void
trace_config(const char *path)
{
    char text[16384];
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return;
    ssize_t bytes = fstat(fd, &st) ? -1 : read(fd, text, sizeof text);
    close(fd);
    if (bytes >= 0)
        dcp_trace_event(dcp_session.trace, CONFIG, text, (size_t)bytes,
                        .bytes = (uint64_t)st.st_size);
}

static void
trace_line(enum dcp_log_level level, const char *line, unsigned bytes)
{
    dcp_trace_event(dcp_session.trace, LOG, line, bytes, .level = level);
}

/* Runs at exit, when the driver may be gone: only the file is touched. */
static void
trace_end(void)
{
    struct dcp_session *s = &dcp_session;

    dcp_watch_end();
    dcp_log_listen(NULL);
    dcp_trace_event(s->trace, END, NULL, 0, .iterations = s->iterations,
                    .followed = s->followed);
    dcp_trace_close(s->trace);
    s->trace = NULL;
}

void
dcp_session_trace_start(struct dcp_session *s, int rank, int world)
{
    const char *config = getenv("DC_CONFIG");
    struct timespec wall;

    if (!s->trace)
        return;
    clock_gettime(CLOCK_REALTIME, &wall);
    uint64_t fields[] = {(uint64_t)getpid(), (uint64_t)rank, (uint64_t)world,
                         (uint64_t)wall.tv_sec * 1000000000u +
                             (uint64_t)wall.tv_nsec};
    trace_program(fields, 4);
    if (config && *config)
        trace_config(config);
    dcp_log_listen(trace_line);
    atexit(trace_end);
}

void
dcp_session_trace_device(struct dcp_session *s)
{
    char name[256] = "?";
    int sms = 0;
    size_t total = 0, granularity = 0;
    CUdevice device = 0;
    CUmemAllocationProp prop = {
        .type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE},
    };
    static atomic_bool begun;

    if (!s->trace || atomic_exchange(&begun, true))
        return;
    if (dcp_real.cuCtxGetDevice)
        dcp_real.cuCtxGetDevice(&device);
    prop.location.id = device;
    dcp_real.cuDeviceGetName(name, sizeof name, device);
    dcp_real.cuDeviceGetAttribute(
        &sms, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device);
    dcp_real.cuDeviceTotalMem_v2(&total, device);
    dcp_real.cuMemGetAllocationGranularity(
        &granularity, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
    dcp_trace_event(s->trace, DEVICE, name, strlen(name),
                    .total_bytes = total, .sm_count = (uint64_t)sms,
                    .granularity = granularity, .budget_bytes = s->budget);
}

static void
heap_event(enum dcp_heap_event_kind kind, const struct dcp_block *block,
           CUstream stream, uint64_t reserved)
{
    struct dcp_session *s = &dcp_session;
    uint64_t phase = (uint64_t)atomic_load(&s->phase);

    (void)reserved;
    if (kind == DCP_HEAP_ALLOC) {
        last_block = block->id;
        dcp_trace_event(s->trace, ALLOC, NULL, 0, .block = block->id,
                        .address = block->base, .bytes = block->bytes,
                        .stream = (uint64_t)stream, .stack = dcp_stack_take(2),
                        .phase = phase, .host = block->host);
    } else {
        dcp_trace_event(s->trace, FREE, NULL, 0, .block = block->id,
                        .stream = (uint64_t)stream, .phase = phase);
    }
}

uint64_t
dcp_session_trace_block(void)
{
    uint64_t block = last_block;

    last_block = 0;
    return block;
}

/* A peak between two borders is told at the second. */
void
dcp_session_trace_memory(struct dcp_session *s)
{
    static struct dcp_heap_stats peak;
    struct dcp_heap_stats now;

    if (!s->trace)
        return;
    dcp_session_trace_device(s);
    dcp_heap_get_stats(&now);
    if (now.used_peak > peak.used_peak ||
        now.reserved_peak > peak.reserved_peak ||
        now.host_peak > peak.host_peak) {
        peak = now;
        dcp_trace_event(s->trace, MEMORY, NULL, 0, .used = now.used_peak,
                        .reserved = now.reserved_peak, .host = now.host_peak);
    }
    dcp_trace_event(s->trace, MEMORY, NULL, 0, .used = now.used,
                    .reserved = now.reserved, .host = now.host);
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
