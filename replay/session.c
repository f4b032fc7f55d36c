/* SPDX-License-Identifier: Apache-2.0 */
/* The two ends of every watched call, and what happens at iteration borders.
 * The order of a process's life is read here; the work is in follow.c,
 * warm.c and build.c. */
#include "config.h"

#include "replay/session.h"

#include "intercept/heap.h"
#include "replay/experiment.h"
#include "replay/flusher.h"
#include "replay/plan.h"
#include "replay/timing.h"
#include "src/clock.h"
#include "src/log.h"

#include <string.h>

enum {
    JUDGE_AFTER = 64, /* iterations */
    RELEARN_MAX = 5,
};

struct dcp_session dcp_session;

/* What before() leaves for after(), in the calling thread. */
struct call_state {
    struct dcp_node *node;
    uint32_t logged; /* index in the warm-up log, UINT32_MAX: none */
    uint32_t age;    /* `forgotten` when the call began */
    bool active;
    bool watched;    /* the call is part of an experiment */
    bool locked;     /* this thread holds the session's lock over heap calls */
    struct dcp_view view;
};

static __thread struct call_state call_state;
static _Atomic int calls_open; /* between before() and after() */
static uint32_t forgotten;     /* times that all nodes were removed */

bool
dcp_session_enter(void)
{
    if (call_state.locked)
        return false;
    dcp_lock_take(&dcp_session.lock);
    call_state.locked = true;
    return true;
}

void
dcp_session_leave(bool entered)
{
    if (!entered)
        return;
    call_state.locked = false;
    dcp_lock_give(&dcp_session.lock);
}

static int
phase_get(void)
{
    return atomic_load_explicit(&dcp_session.phase, memory_order_relaxed);
}

static void
phase_set(int phase)
{
    uint64_t field = (uint64_t)phase;

    atomic_store(&dcp_session.phase, phase);
    dcp_session_plainly(&dcp_session);
    dcp_trace_put(dcp_session.trace, DCP_TRACE_PHASE, &field, 1, NULL, 0);
}

/* True when there was something to stop. */
static bool
stop(const char *why)
{
    if (phase_get() == DCP_PHASE_OFF)
        return false;
    dcp_follow_flush_late(&dcp_session, why);
    dcp_plan_break();
    phase_set(DCP_PHASE_OFF);
    return true;
}

void
dcp_session_off(const char *why)
{
    if (stop(why))
        dcp_warn("%s; the program goes on without replay", why);
}

/* --- calls that are no part of an iteration -------------------------------- */

static bool
flush_for(const char *why, CUresult *result)
{
    struct dcp_session *s = &dcp_session;

    if (!s->pending)
        return false;
    bool entered = dcp_session_enter();
    *result = dcp_follow_flush(s, why);
    dcp_session_leave(entered);
    return *result != CUDA_SUCCESS;
}

static bool
capture_call(const struct dcp_hook_info *info)
{
    switch (info->canon) {
    case DCP_HOOK_cuStreamBeginCapture:
    case DCP_HOOK_cuStreamBeginCapture_v2:
    case DCP_HOOK_cuStreamBeginCaptureToGraph:
    case DCP_HOOK_cuStreamBeginRecaptureToGraph:
    case DCP_HOOK_cuStreamBeginCaptureToCig:
    case DCP_HOOK_cuStreamEndCapture:
    case DCP_HOOK_cuStreamEndCaptureToCig:
        return true;
    default:
        return false;
    }
}

/* True when the class says that the order of GPU work is not touched. */
static bool
harmless(const struct dcp_hook_info *info)
{
    switch ((enum dcp_hook_class)info->class) {
    case DCP_CLASS_ABOUT:
    case DCP_CLASS_MODULE:
    case DCP_CLASS_BUILD:
    case DCP_CLASS_INIT:
    case DCP_CLASS_ALLOC:
        return true;
    case DCP_CLASS_QUERY:
        /* Events are always recorded in place, so only a stream can have
         * work that the driver does not know of yet. */
        return info->canon != DCP_HOOK_cuStreamQuery;
    case DCP_CLASS_CAPTURE:
        return !capture_call(info);
    default:
        return false;
    }
}

static void
tree_forget(struct dcp_session *s)
{
    forgotten++;
    dcp_timing_drop();
    dcp_plan_unpin();
    dcp_lower_drop(&s->trie.root);
    while (s->trie.root.child)
        dcp_trie_remove(&s->trie, s->trie.root.child->branch);
    s->cursor = &s->trie.root;
    s->leaf = NULL;
    s->odd = true;
}

static void
unload(const struct dcp_hook_info *info)
{
    struct dcp_session *s = &dcp_session;

    switch (info->canon) {
    case DCP_HOOK_cuModuleUnload:
    case DCP_HOOK_cuLibraryUnload:
        /* Recorded functions may be gone, and their handles come back as
         * others. */
        tree_forget(s);
        dcp_kernel_forget();
        if (phase_get() == DCP_PHASE_RECORD)
            dcp_warm_restart();
        break;
    case DCP_HOOK_cuDevicePrimaryCtxReset_v2:
    case DCP_HOOK_cuCtxDestroy_v2:
        if (stop("a context is being destroyed"))
            dcp_info("a context is being destroyed: no more replay");
        break;
    default:
        break;
    }
}

static bool
other_call(const struct dcp_hook_info *info, CUresult *result)
{
    if (harmless(info))
        return false;
    if (info->class == DCP_CLASS_UNLOAD) {
        /* What is given back is given back, whatever came before. */
        bool entered = dcp_session_enter();
        dcp_follow_flush_late(&dcp_session, "a call outside the iteration");
        unload(info);
        dcp_session_leave(entered);
        return false;
    }
    return flush_for("a call outside the iteration", result);
}

/* An error of work that was held back, which no call was there to be told of,
 * goes to the next that may report such errors and gives nothing back. */
static bool
owed_pay(const struct dcp_hook_info *info, CUresult *result)
{
    if (harmless(info) || info->class == DCP_CLASS_UNLOAD ||
        info->class == DCP_CLASS_FREE)
        return false;
    *result = (CUresult)atomic_exchange(&dcp_session.owed, 0);
    return *result != CUDA_SUCCESS;
}

/* --- before and after ------------------------------------------------------ */

static void
follow_begin(struct dcp_session *s)
{
    if (dcp_real.cuCtxGetCurrent(&s->context) != CUDA_SUCCESS ||
        !s->context) {
        dcp_session_off("there is no current context");
        return;
    }
    if (!dcp_flusher_start()) {
        dcp_session_off("no thread can be made");
        return;
    }
    s->pass = (struct dcp_pass){.begin_ns = dcp_now_ns()};
    s->cursor = &s->trie.root;
    phase_set(DCP_PHASE_FOLLOW);
}

/* A program whose iterations keep being unlike the known ones has moved on to
 * something else (or what was found was no iteration): recording begins
 * again, each time after a longer while. */
static bool
judge(struct dcp_session *s)
{
    uint64_t window = s->iterations - s->window_begin;

    if (window < (uint64_t)JUDGE_AFTER << s->relearned)
        return true;
    bool good = (s->followed - s->window_followed) * 4 >= window;
    s->window_begin = s->iterations;
    s->window_followed = s->followed;
    if (good || s->relearned >= RELEARN_MAX)
        return true;
    s->relearned++;
    dcp_info("few of the last %llu iterations were as recorded: recording again",
             (unsigned long long)window);
    tree_forget(s);
    memset(&s->anchor, 0, sizeof s->anchor);
    s->steady = false;
    dcp_warm_restart();
    dcp_experiment_again();
    phase_set(DCP_PHASE_RECORD);
    return false;
}

/* Graphs and addresses for the iteration that has just ended. */
static void
border_work(struct dcp_session *s)
{
    struct dcp_node *leaf = s->leaf;
    uint64_t begin = dcp_now_ns();

    s->leaf = NULL;
    if (!leaf || s->pending || s->cursor != &s->trie.root || !judge(s)) {
        dcp_timing_drop();
        return;
    }
    leaf->visits++;
    leaf->last_pass = s->iterations;
    bool wanted = leaf->visits + s->leaf_steady >= 2 &&
                  leaf->built != s->trie.state + 1;
    if (!wanted)
        dcp_timing_drop();
    if (wanted || (leaf->visits >= 2 && !leaf->placed)) {
        dcp_build_path(s, leaf);
        s->own_ns += dcp_now_ns() - begin;
    }
    if (atomic_load(&calls_open) == 0)
        dcp_build_evict(s);
}

/* Work that waits for a value in memory may be waiting for the program's next
 * step; the library's own waits could then last for ever. */
static bool
waits_for_value(const struct dcp_hook_info *info)
{
    switch (info->canon) {
    case DCP_HOOK_cuStreamWaitValue32_v2:
    case DCP_HOOK_cuStreamWaitValue64_v2:
    case DCP_HOOK_cuStreamBatchMemOp_v2:
    case DCP_HOOK_cuStreamWaitValue32:
    case DCP_HOOK_cuStreamWaitValue64:
    case DCP_HOOK_cuStreamBatchMemOp:
    case DCP_HOOK_cuWaitExternalSemaphoresAsync:
        return true;
    default:
        return false;
    }
}

static bool
before_locked(struct dcp_session *s, struct call_state *state, CUresult *result)
{
    const struct dcp_view *view = &state->view;
    int phase = phase_get();

    if (phase == DCP_PHASE_RECORD) {
        if (dcp_warm_due() && dcp_warm_analyse(s))
            follow_begin(s);
        else
            state->logged = dcp_warm_append(view, &state->watched);
        state->active = true;
        return false;
    }
    if (phase != DCP_PHASE_FOLLOW)
        return false;
    if (s->border_due) {
        dcp_follow_flush_late(s, NULL);
        dcp_follow_border(s);
        border_work(s);
        if (phase_get() != DCP_PHASE_FOLLOW)
            return before_locked(s, state, result);
    }
    if (dcp_follow_call(s, view, result, &state->node))
        return true;
    state->active = true;
    if (view->fold == DCP_FOLD_WAIT && (!s->anchor.key || s->border_at_wait))
        dcp_follow_border(s);
    return false;
}

/* The next call of the path, if it is this one and needs nothing else. */
static inline struct dcp_node *
next_plainly(const struct dcp_session *s, const struct dcp_hook_info *info,
             CUstream stream)
{
    struct dcp_node *node = s->cursor->child;

    if (!node || node->hook != info->canon || node->origin ||
        node->stream != (uint64_t)dcp_hook_stream(info, stream))
        return NULL;
    return node;
}

static inline void
swallow_plainly(struct dcp_session *s, struct dcp_node *node)
{
    s->cursor = node;
    s->pass.calls++;
    s->pass.swallowed++;
}

/* Planned allocations and their frees, which are as frequent as launches, have
 * a way of their own. False: the long way. */
__attribute__((noinline)) static bool
alloc_plainly(struct dcp_session *s, const struct dcp_hook_info *info,
              struct dcp_args_cuMemAllocAsync *args)
{
    dcp_lock_take(&s->lock);
    struct dcp_node *node = next_plainly(s, info, args->hStream);
    CUdeviceptr at = 0;
    if (node && args->dptr)
        at = dcp_plan_take(node, args->bytesize);
    if (at) {
        *args->dptr = node->call.memory.address = at;
        swallow_plainly(s, node);
    }
    dcp_lock_give(&s->lock);
    return at != 0;
}

__attribute__((noinline)) static bool
free_plainly(struct dcp_session *s, const struct dcp_hook_info *info,
             struct dcp_args_cuMemFreeAsync *args)
{
    dcp_lock_take(&s->lock);
    struct dcp_node *node = next_plainly(s, info, args->hStream);
    bool done = node && dcp_plan_give_back(node, args->dptr);
    if (done) {
        node->call.memory.address = args->dptr;
        swallow_plainly(s, node);
    }
    dcp_lock_give(&s->lock);
    return done;
}

__attribute__((noinline)) static bool
before_any(const struct dcp_hook_info *info, void *args, CUresult *result)
{
    struct dcp_session *s = &dcp_session;
    struct call_state *state = &call_state;

    state->active = false;
    if (__builtin_expect(
            atomic_load_explicit(&s->owed, memory_order_relaxed) != 0, 0) &&
        owed_pay(info, result))
        return true;
    if (phase_get() == DCP_PHASE_OFF ||
        (atomic_load_explicit(&s->captures, memory_order_relaxed) &&
         info->class != DCP_CLASS_UNLOAD))
        return false;
    if (!dcp_view_fill(&state->view, info, args))
        return other_call(info, result);
    state->node = NULL;
    state->logged = UINT32_MAX;
    if (info->class == DCP_CLASS_DEPEND && waits_for_value(info)) {
        bool mine = dcp_session_enter();
        dcp_session_off("the program lets streams wait for values in memory");
        dcp_session_leave(mine);
        return false;
    }
    bool entered = dcp_session_enter();
    bool swallowed = !atomic_load(&s->captures) &&
                     before_locked(s, state, result);
    state->age = forgotten;
    if (state->active)
        atomic_fetch_add_explicit(&calls_open, 1, memory_order_relaxed);
    dcp_session_leave(entered);
    return swallowed;
}

static bool
before(const struct dcp_hook_info *info, void *args, CUresult *result)
{
    *result = CUDA_SUCCESS;
    if (atomic_load_explicit(&dcp_session.plainly, memory_order_relaxed)) {
        if (info->canon == DCP_HOOK_cuMemAllocAsync &&
            alloc_plainly(&dcp_session, info, args))
            return true;
        if (info->canon == DCP_HOOK_cuMemFreeAsync &&
            free_plainly(&dcp_session, info, args))
            return true;
    }
    return before_any(info, args, result);
}

static void
after_locked(struct dcp_session *s, struct call_state *state, CUresult result)
{
    const struct dcp_view *view = &state->view;

    if (state->age != forgotten) {
        state->node = NULL;
        state->logged = UINT32_MAX;
    }
    if (state->logged != UINT32_MAX)
        dcp_warm_result(state->logged, view, result, state->watched);
    if (state->node && result != CUDA_SUCCESS)
        state->node->failed = true;
    if (state->node && view->op == DCP_CALL_ALLOC && result == CUDA_SUCCESS) {
        state->node->call.memory.address = *view->memory.out;
        dcp_plan_note(state->node, *view->memory.out, view->memory.bytes);
        state->node->block = dcp_session_trace_block();
    }
    if (view->fold != DCP_FOLD_WAIT || result != CUDA_SUCCESS)
        return;
    if (phase_get() == DCP_PHASE_RECORD && dcp_warm_analyse(s)) {
        follow_begin(s);
    } else if (s->leaf) {
        border_work(s);
    }
}

static void
captured(const struct dcp_hook_info *info, CUresult result)
{
    struct dcp_session *s = &dcp_session;
    bool ends = info->canon == DCP_HOOK_cuStreamEndCapture ||
                info->canon == DCP_HOOK_cuStreamEndCaptureToCig;

    /* An end that fails ends the capture all the same, unless there was none. */
    if (result != CUDA_SUCCESS &&
        (!ends || result == CUDA_ERROR_ILLEGAL_STATE ||
         result == CUDA_ERROR_INVALID_VALUE ||
         result == CUDA_ERROR_INVALID_HANDLE))
        return;
    bool entered = dcp_session_enter();
    /* While one is open calls go past the follower: what another thread had
     * held back since the call began goes first. */
    if (s->pending)
        dcp_follow_flush_late(s, "a stream capture");
    int open = atomic_fetch_add(&s->captures, ends ? -1 : 1) + (ends ? -1 : 1);
    if (open < 0)
        atomic_store(&s->captures, open = 0);
    atomic_store(&dcp_heap_captures, open);
    dcp_session_plainly(s);
    s->odd = true;
    dcp_plan_break();
    dcp_session_leave(entered);
}

static bool
makes_context(const struct dcp_hook_info *info)
{
    switch (info->canon) {
    case DCP_HOOK_cuCtxCreate:
    case DCP_HOOK_cuCtxCreate_v2:
    case DCP_HOOK_cuCtxCreate_v3:
#if CUDA_VERSION >= 12050
    case DCP_HOOK_cuCtxCreate_v4:
#endif
    case DCP_HOOK_cuDevicePrimaryCtxRetain:
        return true;
    default:
        return false;
    }
}

static void
context_made(const struct dcp_hook_info *info, void *args)
{
    static _Atomic int first_device = -1;

    if (info->canon == DCP_HOOK_cuDevicePrimaryCtxRetain) {
        struct dcp_args_cuDevicePrimaryCtxRetain *a = args;
        int none = -1;
        if (atomic_compare_exchange_strong(&first_device, &none, a->dev) ||
            none == a->dev)
            return;
    }
    bool entered = dcp_session_enter();
    dcp_session_off("the program uses a second context or device");
    dcp_session_leave(entered);
}

/* What was recorded and built went with the context. */
static void
context_released(struct dcp_session *s)
{
    if (dcp_heap_context())
        return;
    bool entered = dcp_session_enter();
    if (s->context && stop("the context was released"))
        dcp_info("the context was released: no more replay");
    dcp_session_leave(entered);
}

static void
after(const struct dcp_hook_info *info, void *args, CUresult *result)
{
    struct dcp_session *s = &dcp_session;
    struct call_state *state = &call_state;

    if (!state->active) {
        if (info->class == DCP_CLASS_CAPTURE && capture_call(info))
            captured(info, *result);
        else if (info->class == DCP_CLASS_INIT && *result == CUDA_SUCCESS &&
                 makes_context(info))
            context_made(info, args);
        else if (info->canon == DCP_HOOK_cuDevicePrimaryCtxRelease_v2)
            context_released(s);
        return;
    }
    state->active = false;
    bool plain = state->logged == UINT32_MAX && *result == CUDA_SUCCESS &&
                 state->view.op != DCP_CALL_ALLOC &&
                 state->view.fold != DCP_FOLD_WAIT;
    if (plain) {
        atomic_fetch_sub_explicit(&calls_open, 1, memory_order_relaxed);
        return;
    }
    bool entered = dcp_session_enter();
    atomic_fetch_sub_explicit(&calls_open, 1, memory_order_relaxed);
    after_locked(s, state, *result);
    dcp_session_leave(entered);
}

bool
dcp_session_make_room(uint64_t bytes)
{
    if (dcp_real.cuCtxSynchronize() != CUDA_SUCCESS)
        return false;
    if (bytes > dcp_plan.bytes)
        dcp_heap_trim(0);
    return dcp_plan_range(bytes);
}

static bool
heap_held(void)
{
    return dcp_session.pending != NULL;
}

/* The heap is about to wait, trim or unmap: nothing may still be held back. */
static void
heap_pressure(void)
{
    struct dcp_session *s = &dcp_session;

    if (call_state.locked) /* at a border: nothing is held back */
        return;
    bool entered = dcp_session_enter();
    dcp_follow_flush_late(s, NULL);
    dcp_session_leave(entered);
}

void
dcp_session_start(void)
{
    static const struct dcp_sink sink = {before, after};

    dcp_trie_init(&dcp_session.trie);
    dcp_heap_on_pressure(heap_held, heap_pressure);
    dcp_warm_restart();
    phase_set(DCP_PHASE_RECORD);
    dcp_hook_listen(&sink);
}
