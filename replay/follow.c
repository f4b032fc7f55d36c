/* SPDX-License-Identifier: Apache-2.0 */
/* The follower: compares each call with the tree, swallows what a graph will
 * do, and launches the graph once the program has issued all of it. */
#include "config.h"

#include "replay/session.h"

#include "intercept/heap.h"
#include "replay/plan.h"
#include "replay/staging.h"
#include "replay/timing.h"
#include "src/clock.h"
#include "src/log.h"

static void
unfollowed(struct dcp_session *s, const char *why)
{
    if (s->pass.reason)
        return;
    s->pass.reason = why;
    s->pass.position = s->cursor->depth;
}

/* Others look at it without the lock: whoever sees nothing held back may
 * record an event that stands for all of it, so it goes only after the last
 * call has been issued. */
static inline void
pending_set(struct dcp_session *s, struct dcp_segment *segment)
{
    atomic_store_explicit(&s->pending, segment, memory_order_release);
}

/* What is held back may have to be issued in a thread of any context, or of
 * none. True: context_leave has something to undo. */
static bool
context_enter(const struct dcp_session *s)
{
    CUcontext now = NULL;

    if (dcp_real.cuCtxGetCurrent(&now) == CUDA_SUCCESS && now == s->context)
        return false;
    return dcp_real.cuCtxPushCurrent_v2(s->context) == CUDA_SUCCESS;
}

static void
context_leave(bool entered)
{
    CUcontext now;

    if (entered)
        dcp_real.cuCtxPopCurrent_v2(&now);
}

CUresult
dcp_follow_flush(struct dcp_session *s, const char *why)
{
    struct dcp_segment *segment = s->pending;
    uint32_t count = s->pending_count;
    CUresult first = CUDA_SUCCESS;

    if (!segment)
        return CUDA_SUCCESS;
    bool entered = context_enter(s);
    for (uint32_t i = 0; i < count; i++) {
        CUresult result = dcp_node_issue(segment->nodes[i], NULL);

        if (result == CUDA_SUCCESS && segment->nodes[i]->stage)
            dcp_stage_issued(segment->nodes[i]->stage,
                             (CUstream)segment->stream);
        if (first == CUDA_SUCCESS)
            first = result;
    }
    context_leave(entered);
    pending_set(s, NULL);
    s->pending_count = 0;
    s->pass.swallowed -= count;
    s->pass.eager += count;
    if (count)
        unfollowed(s, why);
    return first;
}

void
dcp_follow_flush_late(struct dcp_session *s, const char *why)
{
    CUresult result = dcp_follow_flush(s, why);

    if (result != CUDA_SUCCESS && !atomic_load(&s->owed))
        atomic_store(&s->owed, (int)result);
}

/* All calls of the pending segment have been made. */
static CUresult
segment_complete(struct dcp_session *s)
{
    struct dcp_segment *segment = s->pending;
    CUresult result;

    if ((int64_t)segment->checked < s->config.verify &&
        (segment->checked++, dcp_verify_can(segment))) {
        if (!dcp_verify_segment(s, segment, &result))
            segment->dead = true;
        pending_set(s, NULL);
        s->pending_count = 0;
        return result;
    }
    result = dcp_segment_launch(segment);
    if (result == CUDA_SUCCESS) {
        pending_set(s, NULL);
        s->pending_count = 0;
        s->pass.launches++;
        return CUDA_SUCCESS;
    }
    dcp_info("a graph of %u nodes was refused with error %d; its calls are "
             "issued one by one",
             segment->count, (int)result);
    segment->dead = true;
    return dcp_follow_flush(s, "graph launch refused");
}

/* Issued in place; the values are kept all the same, since a graph can only
 * be made from addresses that exist (but an upload is not staged for that). */
static bool
call_in_place(struct dcp_session *s, struct dcp_node *node,
              const struct dcp_view *view)
{
    s->pass.eager++;
    if (!node->segment)
        dcp_timing_mark(node);
    if (node->op == DCP_CALL_COPY &&
        view->copy.src_place != DCP_PLACE_DEVICE && dcp_stage_wanted(view)) {
        node->call.copy.dst = view->copy.dst;
        node->call.copy.bytes = view->copy.bytes;
        node->stale = true;
    } else if (dcp_node_take(node, view) != 0) {
        node->stale = true;
    }
    return false;
}

static bool
node_swallow(struct dcp_session *s, struct dcp_node *node,
             const struct dcp_view *view, CUresult *result)
{
    struct dcp_segment *segment = node->segment;

    s->pass.work++;
    if (!segment || segment->dead || node->failed ||
        (node->at && (s->pending != segment || s->pending_count != node->at))) {
        *result = dcp_follow_flush(s, "segment left early");
        call_in_place(s, node, view);
        return *result != CUDA_SUCCESS;
    }
    if (s->pending != segment) {
        *result = dcp_follow_flush(s, "segment left early");
        if (*result != CUDA_SUCCESS)
            return true;
        pending_set(s, segment);
        s->pending_count = 0;
    }
    int changed = dcp_node_take(node, view);
    if (changed > 0 || node->stale) {
        node->stale = true;
        if (changed < 0 || dcp_segment_update(segment, node) != CUDA_SUCCESS)
            changed = -1;
        else
            node->stale = false;
        s->pass.updates++;
    }
    if (changed < 0) {
        *result = dcp_follow_flush(s, "values that the graph cannot take");
        s->pass.eager++;
        return *result != CUDA_SUCCESS;
    }
    s->pass.swallowed++;
    s->pending_count++;
    *result = CUDA_SUCCESS;
    if (s->pending_count == segment->count)
        *result = segment_complete(s);
    return true;
}

/* Which block a free ends, for the build: its size is asked for only when the
 * address is not the one of last time. */
static void
free_note(struct dcp_node *node, CUdeviceptr address)
{
    struct dcp_block block;

    if (node->call.memory.address == address && node->call.memory.bytes)
        return;
    node->call.memory.address = address;
    node->call.memory.bytes = dcp_heap_find(address, &block) ? block.bytes : 0;
}

static bool
node_memory(struct dcp_session *s, struct dcp_node *node,
            const struct dcp_view *view, CUresult *result)
{
    if (node->op == DCP_CALL_FREE) {
        free_note(node, view->memory.address);
        if (!dcp_plan_give(node, view->memory.address)) {
            /* The driver may give its own memory to somebody at once. */
            if (!dcp_heap_owns(view->memory.address))
                *result = dcp_follow_flush(s, "a free of the driver's memory");
            return *result != CUDA_SUCCESS;
        }
        s->pass.swallowed++;
        *result = CUDA_SUCCESS;
        return true;
    }
    node->call.memory.bytes = view->memory.bytes;
    CUdeviceptr planned =
        node->place >= 0 && view->memory.out
            ? dcp_plan_take(node, view->memory.bytes)
            : 0;
    if (!planned)
        return false;
    *view->memory.out = planned;
    node->call.memory.address = planned;
    s->pass.swallowed++;
    *result = CUDA_SUCCESS;
    return true;
}

static struct dcp_node *
node_step(struct dcp_session *s, const struct dcp_view *view)
{
    bool graphable;
    uint64_t attrs = 0;

    if (view->op == DCP_CALL_LAUNCH && view->launch.attr_count)
        attrs = dcp_attrs_hash(view->launch.attrs, view->launch.attr_count,
                               &graphable);
    struct dcp_node *node = dcp_trie_find(s->cursor, view, attrs);
    if (node)
        return node;
    /* What is new is issued in place; so is, first, what was swallowed. */
    unfollowed(s, s->iterations ? "a call that was not expected"
                                : "first iteration");
    dcp_plan_break();
    node = dcp_trie_add(&s->trie, s->cursor, view);
    if (node)
        node->anchor = dcp_warm_is_anchor(s, node);
    return node;
}

/* Where the iteration ends, seen from this call on. */
static void
border_watch(struct dcp_session *s, const struct dcp_node *node)
{
    if (node->anchor)
        s->anchor_left = s->anchor.delay + 1;
    if (!s->anchor_left || node->fold == DCP_FOLD_MEM ||
        (node->op != DCP_CALL_LAUNCH && node->op != DCP_CALL_COPY &&
         node->op != DCP_CALL_FILL))
        return;
    if (--s->anchor_left == 0) {
        s->border_at_wait = s->anchor.wait;
        s->border_due = !s->anchor.wait;
        dcp_session_plainly(s);
    }
}

/* The origin of a plan. Its range is made here and not earlier, because what
 * it replaces in the heap has just been freed. */
static void
plan_begin(struct dcp_session *s, struct dcp_node *node)
{
    if (!dcp_plan_origin(node->origin, node->origin_bytes,
                         node->origin_stream))
        return;
    dcp_follow_flush_late(s, NULL);
    if (dcp_session_make_room(node->origin_bytes))
        dcp_plan_origin(node->origin, node->origin_bytes, node->origin_stream);
}

bool
dcp_follow_call(struct dcp_session *s, const struct dcp_view *view,
                CUresult *result, struct dcp_node **out)
{
    *out = NULL;
    s->pass.calls++;
    atomic_fetch_add_explicit(&s->activity, 1, memory_order_relaxed);
    struct dcp_node *node = node_step(s, view);
    if (!node) {
        *result = dcp_follow_flush(s, "out of memory");
        dcp_session_off("out of memory");
        return *result != CUDA_SUCCESS;
    }
    s->cursor = node;
    *out = node;
    border_watch(s, node);
    if (node->origin)
        plan_begin(s, node);
    if (node->fold == DCP_FOLD_NODE)
        return node_swallow(s, node, view, result);
    if (node->fold == DCP_FOLD_MEM)
        return node_memory(s, node, view, result);
    /* Issued in place: everything before it must have been issued. */
    *result = dcp_follow_flush(s, "a call that must be issued in place");
    if (node->op == DCP_CALL_FREE)
        free_note(node, view->memory.address);
    return *result != CUDA_SUCCESS;
}

static void
pass_report(struct dcp_session *s, bool followed, uint64_t now)
{
    uint64_t fields[] = {s->pass.number,    s->pass.begin_ns, now,
                         followed,          s->pass.calls,    s->pass.swallowed,
                         s->pass.updates,   s->pass.launches,
                         s->cursor->graph};

    dcp_trace_put(s->trace, DCP_TRACE_ITERATION, fields, 9, NULL, 0);
    if (followed || !s->trace)
        return;
    const char *why = s->pass.reason ? s->pass.reason : "no graph yet";
    uint64_t where[] = {s->pass.number, s->pass.position};
    size_t bytes = 0;
    while (why[bytes])
        bytes++;
    dcp_trace_put(s->trace, DCP_TRACE_UNFOLLOWED, where, 2, why, bytes);
}

void
dcp_follow_border(struct dcp_session *s)
{
    uint64_t now = dcp_now_ns();

    /* What the plan has before its origin follows its own variant alone. */
    if (s->cursor->graph != dcp_plan.id)
        dcp_plan_break();
    s->anchor_left = 0;
    s->border_at_wait = s->border_due = false;
    dcp_session_plainly(s);
    bool followed = s->pass.launches && !s->pass.reason &&
                    s->pass.eager * 10 <= s->pass.work;

    if (s->pass.work == 0) {
        /* Two waits in a row: the path goes on at the root. */
        s->pass.calls = 0;
        s->cursor = &s->trie.root;
        return;
    }
    s->iterations++;
    s->followed += followed;
    if (followed && !s->first_followed)
        s->first_followed = s->iterations;
    s->pass.number = s->iterations;
    pass_report(s, followed, now);
    struct dcp_heap_stats heap = {0};
    if (dcp_log_threshold >= DCP_LOG_DEBUG)
        dcp_heap_get_stats(&heap);
    dcp_debug("heap: %zu MiB used, %zu reserved, %zu reserved at most, %zu on "
              "the host", heap.used >> 20, heap.reserved >> 20,
              heap.reserved_peak >> 20, heap.host >> 20);
    dcp_debug("iteration %llu: %llu calls, %llu swallowed, %llu of %llu in "
              "place, %llu updates, %llu graphs, variant %u; %s at %u",
              (unsigned long long)s->iterations,
              (unsigned long long)s->pass.calls,
              (unsigned long long)s->pass.swallowed,
              (unsigned long long)s->pass.eager,
              (unsigned long long)s->pass.work,
              (unsigned long long)s->pass.updates,
              (unsigned long long)s->pass.launches, s->cursor->graph,
              s->pass.reason ? s->pass.reason : "as recorded",
              s->pass.position);
    dcp_session_trace_memory(s);
    s->leaf = s->cursor;
    s->leaf_steady = s->steady && !s->odd;
    s->odd = false;
    s->cursor = &s->trie.root;
    s->pass = (struct dcp_pass){.begin_ns = now};
    dcp_plan_pass(s->iterations);
}
