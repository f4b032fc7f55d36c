/* SPDX-License-Identifier: Apache-2.0 */
/* The warm-up: every call is issued as the program makes it, and logged. At
 * host waits the log is searched for the iteration. */
#include "config.h"

#include "replay/session.h"

#include "capture/log.h"
#include "capture/period.h"
#include "intercept/heap.h"
#include "replay/build_trace.h"
#include "replay/experiment.h"
#include "src/alloc.h"
#include "src/clock.h"
#include "src/log.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    CALLS_MAX = 400 * 1000,    /* a log longer than this begins anew */
    TRY_FIRST = 32,            /* calls before the first search */
    WORK_MIN = 16,             /* launches, copies, fills of an iteration */
    GIVE_UP_CALLS = 100 * 1000, /* calls without an iteration being found */
    SEARCH_NS_MAX = 2000000000, /* total time spent on searching */
};

static struct {
    struct dcp_arena arena;
    struct dcp_log log;
    uint32_t call_room, buffer_room;
    uint32_t next_try;
    uint64_t calls; /* since recording began */
    uint64_t search_ns;
} warm;

static bool
grow(void **array, uint32_t count, uint32_t *room, size_t item)
{
    if (count < *room)
        return true;
    uint32_t more = *room ? *room * 2 : 4096;
    void *new = dcp_realloc(*array, more * item);
    if (!new)
        return false;
    *array = new;
    *room = more;
    return true;
}

static struct dcp_log_buffer *
buffer_add(const struct dcp_block *block, uint32_t call)
{
    struct dcp_log *log = &warm.log;
    void *array = log->buffers;

    if (!grow(&array, log->buffer_count, &warm.buffer_room,
              sizeof *log->buffers))
        return NULL;
    log->buffers = array;
    struct dcp_log_buffer *b = &log->buffers[log->buffer_count++];
    *b = (struct dcp_log_buffer){
        .block = block->id,
        .address = block->base,
        .bytes = block->bytes,
        .alloc_call = call,
        .free_call = UINT32_MAX,
    };
    return b;
}

static void
buffer_old(const struct dcp_block *block, void *unused)
{
    (void)unused;
    buffer_add(block, UINT32_MAX);
}

static int
buffer_order(const void *a, const void *b)
{
    const struct dcp_log_buffer *x = a, *y = b;

    return x->block < y->block ? -1 : x->block > y->block;
}

void
dcp_warm_end(void)
{
    dcp_arena_release(&warm.arena);
    free(warm.log.calls);
    free(warm.log.buffers);
    memset(&warm.log, 0, sizeof warm.log);
    warm.call_room = warm.buffer_room = 0;
}

void
dcp_warm_restart(void)
{
    dcp_warm_end();
    warm.next_try = TRY_FIRST;
    dcp_heap_each(buffer_old, NULL);
    if (warm.log.buffer_count)
        qsort(warm.log.buffers, warm.log.buffer_count,
              sizeof *warm.log.buffers, buffer_order);
}

/* The index of a block in the log's table, which is ordered by id. */
static uint32_t
buffer_find(uint32_t id)
{
    uint32_t low = 0, high = warm.log.buffer_count;

    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        if ((uint32_t)warm.log.buffers[mid].block < id)
            low = mid + 1;
        else
            high = mid;
    }
    if (low < warm.log.buffer_count &&
        (uint32_t)warm.log.buffers[low].block == id)
        return low;
    return UINT32_MAX;
}

/* References carry block ids as recorded; the log wants table indices. */
static void
refs_resolve(struct dcp_call *call)
{
    uint16_t kept = 0;

    for (uint16_t i = 0; i < call->ref_count; i++) {
        call->refs[kept] = call->refs[i];
        call->refs[kept].buffer = buffer_find(call->refs[i].buffer);
        kept += call->refs[kept].buffer != UINT32_MAX;
    }
    call->ref_count = kept;
}

static uint16_t
thread_number(void)
{
    static __thread uint32_t number;

    if (!number)
        number = ++dcp_session.thread_ids;
    return (uint16_t)(number - 1);
}

uint32_t
dcp_warm_append(const struct dcp_view *view, bool *watched)
{
    *watched = false;
    struct dcp_log *log = &warm.log;
    void *array = log->calls;

    if (log->call_count >= CALLS_MAX) {
        dcp_warm_restart();
        array = NULL;
    }
    if (!grow(&array, log->call_count, &warm.call_room, sizeof *log->calls))
        return UINT32_MAX;
    log->calls = array;
    struct dcp_call *call = &log->calls[log->call_count];
    if (!dcp_call_record(call, view, &warm.arena)) {
        dcp_session_off("no memory for the warm-up log");
        return UINT32_MAX;
    }
    warm.calls++;
    call->thread = thread_number();
    refs_resolve(call);
    if (view->op == DCP_CALL_FREE) {
        call->memory.buffer =
            call->ref_count ? call->refs[0].buffer : UINT32_MAX;
        if (call->ref_count)
            log->buffers[call->refs[0].buffer].free_call = log->call_count;
        else
            call->op = DCP_CALL_OPAQUE;
    }
    *watched = dcp_experiment_begin(call);
    return log->call_count++;
}

void
dcp_warm_result(uint32_t index, const struct dcp_view *view, CUresult result,
                bool watched)
{
    struct dcp_call *call;
    struct dcp_block block;

    if (index >= warm.log.call_count)
        return;
    call = &warm.log.calls[index];
    if (watched && view->op != DCP_CALL_ALLOC)
        dcp_experiment_end(call, result == CUDA_SUCCESS);
    if (result != CUDA_SUCCESS && view->fold != DCP_FOLD_WAIT)
        call->op = DCP_CALL_OPAQUE;
    if (view->op != DCP_CALL_ALLOC || result != CUDA_SUCCESS)
        return;
    call->memory.address = *view->memory.out;
    dcp_experiment_end(call, true);
    if (dcp_heap_find(call->memory.address, &block) &&
        buffer_add(&block, index))
        call->memory.buffer = warm.log.buffer_count - 1;
    else
        call->op = DCP_CALL_OPAQUE; /* the driver's own memory */
}

static void
anchor_set(struct dcp_session *s, const struct dcp_period *period)
{
    s->anchor = period->anchor;
    s->steady = period->length && period->cycle == 1;
    s->odd = period->borders[period->iterations] != warm.log.call_count;
    dcp_info("the iteration was found: %u calls, %u recorded, %u shapes, "
             "cycle %u, the last to %u of %u",
             period->length, period->iterations, period->shape_count,
             period->cycle, period->borders[period->iterations],
             warm.log.call_count);
}

/* Keeps the recorded iterations, to test the analysis with. */
static void
log_keep(const struct dcp_period *period)
{
    const char *dir = getenv("DCPREL_KEEP_LOG"), *rank = getenv("RANK");
    char path[4096];
    uint32_t last = period->iterations;

    if (!dir || !*dir)
        return;
    snprintf(path, sizeof path, "%s/rank%s.log", dir, rank ? rank : "0");
    int fd = open(path, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0644);
    if (fd < 0) {
        dcp_warn("cannot write %s: %m", path);
        return;
    }
    /* One more iteration before those, without which they are not found. */
    uint32_t first = period->borders[last > 3 ? last - 3 : 0];
    uint32_t before = period->borders[last] - period->borders[last - 1];
    first = first > before ? first - before : 0;
    if (dcp_log_print(&warm.log, first, warm.log.call_count, 0,
                      &dcp_experiment_table, fd) != DCP_OK)
        dcp_warn("cannot write %s: %m", path);
    close(fd);
}

bool
dcp_warm_analyse(struct dcp_session *s)
{
    struct dcp_period_options options = {
        .repeats = s->config.warmup > 2 ? (uint32_t)s->config.warmup - 1 : 2,
        .min_calls = WORK_MIN,
    };
    struct dcp_period period = {0};
    struct dcp_arena arena = {0};
    uint64_t begin = dcp_now_ns();
    bool found = false;

    if (warm.log.call_count < warm.next_try)
        return false;
    enum dcp_status status =
        dcp_period_find(&warm.log, &options, &period, &arena);
    /* Iterations that are all different are none: loops that set parameters up
     * look like that. */
    if (status == DCP_OK && period.iterations >= options.repeats &&
        period.shape_count < period.iterations) {
        anchor_set(s, &period);
        log_keep(&period);
        dcp_build_tell_warm(s, &warm.log, &period);
        found = true;
    }
    warm.search_ns += dcp_now_ns() - begin;
    s->own_ns += dcp_now_ns() - begin;
    warm.next_try = warm.log.call_count + warm.log.call_count / 16 + TRY_FIRST;
    dcp_arena_release(&arena);
    if (!found && (warm.calls > GIVE_UP_CALLS || warm.search_ns > SEARCH_NS_MAX)) {
        dcp_info("no iteration was found in %u calls; every host wait is taken "
                 "for a border",
                 warm.log.call_count);
        found = true;
    }
    if (found) {
        dcp_warm_end();
        dcp_experiment_stop();
    }
    return found;
}

bool
dcp_warm_due(void)
{
    return warm.log.call_count > 2 * warm.next_try;
}

bool
dcp_warm_is_anchor(const struct dcp_session *s, const struct dcp_node *node)
{
    return s->anchor.key && node->op == DCP_CALL_LAUNCH &&
           dcp_anchor_is(&s->anchor, &node->call, NULL);
}
