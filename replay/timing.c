/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "replay/timing.h"

#include "src/alloc.h"
#include "src/clock.h"

#include <stdlib.h>

enum {
    MARKS_MAX = 16384,
    SHORT_NS = 4000, /* a kernel that the GPU had been waiting for */
};

struct mark {
    struct dcp_node *node;
    CUevent event; /* kept for the next iteration */
    uint64_t host_ns;
};

static struct mark *marks;
static uint32_t mark_count, mark_room;

static bool
marks_grow(void)
{
    uint32_t room = mark_room ? mark_room * 2 : 2048;
    struct mark *more = dcp_realloc(marks, room * sizeof *more);

    if (!more)
        return false;
    for (uint32_t i = mark_room; i < room; i++)
        more[i].event = NULL;
    marks = more;
    mark_room = room;
    return true;
}

void
dcp_timing_mark(struct dcp_node *node)
{
    if (node->gpu_ns || mark_count == MARKS_MAX ||
        (mark_count == mark_room && !marks_grow()))
        return;
    struct mark *m = &marks[mark_count];
    if (!m->event && dcp_real.cuEventCreate(&m->event, CU_EVENT_DEFAULT) !=
                         CUDA_SUCCESS) {
        m->event = NULL;
        return;
    }
    if (dcp_real.cuEventRecord(m->event, (CUstream)node->stream) !=
        CUDA_SUCCESS)
        return;
    m->node = node;
    m->host_ns = dcp_now_ns();
    mark_count++;
}

/* From one event to the next the GPU worked, or waited for the host. Where the
 * two events are as far apart as the host's calls, it may have waited. */
static uint32_t
time_between(const struct mark *m, const struct mark *next)
{
    float ms = 0;

    if (m->node->stream != next->node->stream ||
        dcp_real.cuEventElapsedTime(&ms, m->event, next->event) != CUDA_SUCCESS)
        return 1;
    uint64_t gpu = (uint64_t)(ms * 1e6f), host = next->host_ns - m->host_ns;
    if (gpu < host + host / 4 && gpu > SHORT_NS)
        gpu = SHORT_NS;
    return gpu > UINT32_MAX ? UINT32_MAX : gpu ? (uint32_t)gpu : 1;
}

void
dcp_timing_collect(void)
{
    for (uint32_t i = 0; i < mark_count; i++)
        marks[i].node->gpu_ns =
            i + 1 < mark_count ? time_between(&marks[i], &marks[i + 1]) : 1;
    mark_count = 0;
}

void
dcp_timing_drop(void)
{
    mark_count = 0;
}
