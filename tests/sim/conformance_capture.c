/* SPDX-License-Identifier: Apache-2.0 */
/* Checks: stream capture, what it makes, and each way in which it fails. */
#include "conformance.h"

#include <pthread.h>
#include <string.h>

#define GLOBAL_ CU_STREAM_CAPTURE_MODE_GLOBAL
#define LOCAL_ CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
#define RELAXED_ CU_STREAM_CAPTURE_MODE_RELAXED

static CUdeviceptr y;
static CUstream a, b, blocking;
static CUevent fork_event, join_event;

static void
open_all(void)
{
    need("alloc", CU(cuMemAlloc_v2)(&y, 8192));
    a = stream_new(CU_STREAM_NON_BLOCKING);
    b = stream_new(CU_STREAM_NON_BLOCKING);
    blocking = stream_new(CU_STREAM_DEFAULT);
    need("event", CU(cuEventCreate)(&fork_event, 0));
    need("event", CU(cuEventCreate)(&join_event, 0));
}

static void
close_all(void)
{
    CU(cuCtxSynchronize)();
    CU(cuEventDestroy_v2)(fork_event);
    CU(cuEventDestroy_v2)(join_event);
    CU(cuStreamDestroy_v2)(a);
    CU(cuStreamDestroy_v2)(b);
    CU(cuStreamDestroy_v2)(blocking);
    CU(cuMemFree_v2)(y);
}

static size_t
node_count(CUgraph graph)
{
    size_t count = 0;
    if (graph)
        CU(cuGraphGetNodes)(graph, NULL, &count);
    return count;
}

/* Ends a capture and prints the result and whether there was a graph. */
static void
end(const char *what, CUstream stream)
{
    CUgraph graph = (CUgraph)1;
    say(what, CU(cuStreamEndCapture)(stream, &graph));
    if (graph != NULL && graph != (CUgraph)1)
        CU(cuGraphDestroy)(graph);
}

static void
status(const char *what, CUstream stream)
{
    CUstreamCaptureStatus value = (CUstreamCaptureStatus)9;
    CUresult result = CU(cuStreamIsCapturing)(stream, &value);
    say(what, (long long)result * 10 + value);
}

static void
check_fork_and_join(void)
{
    CUgraph graph = NULL;
    CUgraphExec exec = NULL;
    say("begin", CU(cuStreamBeginCapture_v2)(a, GLOBAL_));
    status("status", a);
    status("status_other", b);
    say("launch", launch_fill(a, y, 1.0f, 64));
    say("fork", CU(cuEventRecord)(fork_event, a));
    say("fork_wait", CU(cuStreamWaitEvent)(b, fork_event, 0));
    status("status_forked", b);
    say("launch_forked", launch_fill(b, y + 1024, 2.0f, 64));
    say("launch_main", launch_fill(a, y + 2048, 3.0f, 64));
    say("join", CU(cuEventRecord)(join_event, b));
    say("join_wait", CU(cuStreamWaitEvent)(a, join_event, 0));
    say("copy", CU(cuMemcpyDtoDAsync_v2)(y + 4096, y + 1024, 256, a));
    say("fill", CU(cuMemsetD32Async)(y + 3072, 4, 16, a));
    say("end", CU(cuStreamEndCapture)(a, &graph));
    status("status_after", a);
    status("status_forked_after", b);
    size_t count = 0;
    say("nodes", (long long)node_count(graph));
    CU(cuGraphGetEdges)(graph, NULL, NULL, &count);
    say("edges", (long long)count);
    CU(cuMemsetD32_v2)(y, 0, 2048);
    say("not_run_yet", (long long)read_float(y, 0));
    need("instantiate", CU(cuGraphInstantiateWithFlags)(&exec, graph, 0));
    say("launch_graph", CU(cuGraphLaunch)(exec, a));
    say("value", (long long)read_float(y + 4096, 0));
    CU(cuGraphExecDestroy)(exec);
    CU(cuGraphDestroy)(graph);
}

static void
check_info(void)
{
    CUstreamCaptureStatus value = (CUstreamCaptureStatus)9;
    cuuint64_t id = 0, id_2 = 0;
    CUgraph graph = NULL, ended = NULL;
    const CUgraphNode *front = NULL;
    const CUgraphEdgeData *data = NULL;
    size_t count = 99;
    CUgraphNode node = NULL;
    say("info_none", CU(cuStreamGetCaptureInfo_v3)(a, &value, &id, &graph,
                                                   &front, &data, &count));
    say("info_none_status", value);
    need("begin", CU(cuStreamBeginCapture_v2)(a, RELAXED_));
    say("info", CU(cuStreamGetCaptureInfo_v3)(a, &value, &id, &graph, &front,
                                              &data, &count));
    say("info_status", value);
    say("info_id", id != 0);
    say("info_front", (long long)count);
    launch_fill(a, y, 1.0f, 64);
    say("info_v1", CU(cuStreamGetCaptureInfo)(a, &value, &id_2));
    say("info_same_id", id == id_2);
    say("info_v2", CU(cuStreamGetCaptureInfo_v2)(a, &value, &id, &graph, &front,
                                                 &count));
    say("info_front_1", (long long)count);
    CUgraphNode first = count ? front[0] : NULL;
    say("add_to_captured", CU(cuGraphAddEmptyNode)(&node, graph, NULL, 0));
    say("update_add", CU(cuStreamUpdateCaptureDependencies)(
                          a, &node, 1, CU_STREAM_ADD_CAPTURE_DEPENDENCIES));
    CU(cuStreamGetCaptureInfo_v3)(a, &value, &id, &graph, &front, &data,
                                  &count);
    say("info_front_2", (long long)count);
    say("update_set", CU(cuStreamUpdateCaptureDependencies)(
                          a, &node, 1, CU_STREAM_SET_CAPTURE_DEPENDENCIES));
    launch_fill(a, y, 2.0f, 64);
    CU(cuStreamGetCaptureInfo_v3)(a, &value, &id, &graph, &front, &data,
                                  &count);
    CUgraphNode last = count ? front[0] : NULL;
    CU(cuGraphNodeGetDependencies)(last, NULL, &count);
    say("last_before", (long long)count);
    say("update_flags", CU(cuStreamUpdateCaptureDependencies)(a, &node, 1, 7));
    say("end", CU(cuStreamEndCapture)(a, &ended));
    say("same_graph", ended == graph);
    CU(cuGraphNodeGetDependentNodes)(first, NULL, &count);
    say("first_after", (long long)count);
    say("update_not_capturing",
        CU(cuStreamUpdateCaptureDependencies)(a, NULL, 0, 0));
    CU(cuGraphDestroy)(ended);
}

static void
check_to_graph(void)
{
    CUgraph graph = NULL, ended = NULL;
    CUgraphNode root = NULL;
    CUgraphExec exec = NULL;
    need("create", CU(cuGraphCreate)(&graph, 0));
    need("add", CU(cuGraphAddEmptyNode)(&root, graph, NULL, 0));
    say("begin_to", CU(cuStreamBeginCaptureToGraph)(a, graph, &root, NULL, 1,
                                                    RELAXED_));
    launch_fill(a, y, 1.0f, 64);
    ask("instantiate_open", CU(cuGraphInstantiateWithFlags)(&exec, graph, 0));
    say("end_to", CU(cuStreamEndCapture)(a, &ended));
    say("end_to_same", ended == graph);
    say("to_nodes", (long long)node_count(graph));
    CU(cuGraphDestroy)(graph);
}

/* What kinds of nodes a capture makes. An event that was last recorded in
 * another capture, now over, cannot be waited for. */
static void
check_kinds(CUevent event)
{
    CUgraph graph = NULL;
    CUgraphNode nodes[16];
    CUgraphNodeType type;
    size_t count = 16;
    CUresult result;
    CUdeviceptr got = 0;
    int word = 1;
    need("begin", CU(cuStreamBeginCapture_v2)(a, RELAXED_));
    say("kind_up", CU(cuMemcpyHtoDAsync_v2)(y, &word, 4, a));
    say("kind_memop", CU(cuStreamWriteValue32_v2)(a, y, 1, 0));
    say("kind_alloc", CU(cuMemAllocAsync)(&got, 256, a));
    say("kind_free", CU(cuMemFreeAsync)(got, a));
    say("kind_record", CU(cuEventRecordWithFlags)(event, a,
                                                  CU_EVENT_RECORD_EXTERNAL));
    say("kind_wait", CU(cuStreamWaitEvent)(a, event,
                                           CU_EVENT_WAIT_EXTERNAL));
    say("kind_end", CU(cuStreamEndCapture)(a, &graph));
    result = CU(cuGraphGetNodes)(graph, nodes, &count);
    say("kind_get", result);
    if (result != CUDA_SUCCESS)
        return;
    say("kinds", (long long)count);
    for (size_t i = 0; i < count && i < 16; i++) {
        CU(cuGraphNodeGetType)(nodes[i], &type);
        say("kind", type);
    }
    CU(cuGraphDestroy)(graph);
}

void
check_capture(void)
{
    begin("capture");
    open_all();
    check_fork_and_join();
    check_info();
    check_to_graph();
    check_kinds(fork_event);
    begin("kinds");
    CUevent fresh = NULL;
    need("event", CU(cuEventCreate)(&fresh, 0));
    check_kinds(fresh);
    CU(cuEventDestroy_v2)(fresh);
    close_all();
}

static void
check_misuse(void)
{
    CUgraph graph = NULL;
    say("begin_legacy", CU(cuStreamBeginCapture_v2)(NULL, RELAXED_));
    say("begin_mode_9",
        CU(cuStreamBeginCapture_v2)(a, (CUstreamCaptureMode)9));
    ask("end_not_begun", CU(cuStreamEndCapture)(a, &graph));
    need("begin", CU(cuStreamBeginCapture_v2)(a, RELAXED_));
    ask("begin_twice", CU(cuStreamBeginCapture_v2)(a, RELAXED_));
    end("end_after_twice", a);
    need("begin", CU(cuStreamBeginCapture_v2)(CU_STREAM_PER_THREAD, RELAXED_));
    end("end_own", CU_STREAM_PER_THREAD);
}

static void
check_unjoined(void)
{
    need("begin", CU(cuStreamBeginCapture_v2)(a, GLOBAL_));
    CU(cuEventRecord)(fork_event, a);
    CU(cuStreamWaitEvent)(b, fork_event, 0);
    launch_fill(b, y, 1.0f, 64);
    ask("end_forked", CU(cuStreamEndCapture)(b, &(CUgraph){NULL}));
    status("status_after_wrong_end", a);
    end("end_unjoined", a);
    status("status_after_unjoined", b);
    need("begin", CU(cuStreamBeginCapture_v2)(a, GLOBAL_));
    CU(cuEventRecord)(fork_event, a);
    CU(cuStreamWaitEvent)(b, fork_event, 0);
    end("end_forked_no_work", a);
}

static void
check_waiting(void)
{
    need("begin", CU(cuStreamBeginCapture_v2)(a, RELAXED_));
    launch_fill(a, y, 1.0f, 64);
    say("synchronize", CU(cuStreamSynchronize)(a));
    status("status_after_synchronize", a);
    say("launch_after", launch_fill(a, y, 1.0f, 64));
    end("end_after_synchronize", a);
    need("begin", CU(cuStreamBeginCapture_v2)(a, RELAXED_));
    say("query", CU(cuStreamQuery)(a));
    end("end_after_query", a);
    need("begin", CU(cuStreamBeginCapture_v2)(a, RELAXED_));
    say("ctx_synchronize", CU(cuCtxSynchronize)());
    ask("end_after_ctx", CU(cuStreamEndCapture)(a, &(CUgraph){NULL}));
    need("begin", CU(cuStreamBeginCapture_v2)(a, RELAXED_));
    CU(cuEventRecord)(fork_event, a);
    say("event_query", CU(cuEventQuery)(fork_event));
    ask("end_after_event_query", CU(cuStreamEndCapture)(a, &(CUgraph){NULL}));
    ask("event_query_after", CU(cuEventQuery)(fork_event));
    need("begin", CU(cuStreamBeginCapture_v2)(a, RELAXED_));
    CU(cuEventRecord)(fork_event, a);
    say("event_synchronize", CU(cuEventSynchronize)(fork_event));
    ask("end_after_event_synchronize",
        CU(cuStreamEndCapture)(a, &(CUgraph){NULL}));
    ask("wait_for_old_capture", CU(cuStreamWaitEvent)(b, fork_event, 0));
    CU(cuEventRecord)(fork_event, a);
}

static void
check_mixing(void)
{
    need("begin", CU(cuStreamBeginCapture_v2)(a, RELAXED_));
    need("begin", CU(cuStreamBeginCapture_v2)(b, RELAXED_));
    CU(cuEventRecord)(fork_event, a);
    say("merge", CU(cuStreamWaitEvent)(b, fork_event, 0));
    end("end_merged_a", a);
    end("end_merged_b", b);
    CU(cuEventRecord)(join_event, b);
    need("begin", CU(cuStreamBeginCapture_v2)(a, RELAXED_));
    say("isolation", CU(cuStreamWaitEvent)(a, join_event, 0));
    end("end_isolation", a);
    need("begin", CU(cuStreamBeginCapture_v2)(blocking, RELAXED_));
    say("legacy_launch", launch_fill(NULL, y, 1.0f, 64));
    end("end_legacy_launch", blocking);
    need("begin", CU(cuStreamBeginCapture_v2)(blocking, RELAXED_));
    status("legacy_status", NULL);
    ask("end_legacy_status", CU(cuStreamEndCapture)(blocking,
                                                    &(CUgraph){NULL}));
    need("begin", CU(cuStreamBeginCapture_v2)(blocking, RELAXED_));
    int word = 0;
    ask("legacy_copy", CU(cuMemcpyDtoH_v2)(&word, y, 4));
    ask("end_legacy_copy", CU(cuStreamEndCapture)(blocking, &(CUgraph){NULL}));
    need("begin", CU(cuStreamBeginCapture_v2)(a, RELAXED_));
    say("legacy_launch_aside", launch_fill(NULL, y, 1.0f, 64));
    end("end_legacy_aside", a);
    need("begin", CU(cuStreamBeginCapture_v2)(a, RELAXED_));
    say("callback", CU(cuStreamAddCallback)(a, (CUstreamCallback)(void *)end,
                                            NULL, 0));
    end("end_callback", a);
    need("begin", CU(cuStreamBeginCapture_v2)(a, RELAXED_));
    ask("elapsed_captured",
        (CU(cuEventRecord)(fork_event, a),
         CU(cuEventElapsedTime_v2)(&(float){0}, fork_event, join_event)));
    end("end_elapsed", a);
    CU(cuEventRecord)(fork_event, a);
}

/* Calls that are unsafe under one mode or another. */
static void
unsafe_calls(const char *name, CUstreamCaptureMode mode)
{
    CUdeviceptr at = 0;
    char what[64];
    static const char *const calls[] = {"alloc", "free_host", "mem_info",
                                        "event_query", "other_query",
                                        "stream_create", "sync_copy"};
    void *host = NULL;
    need("host", CU(cuMemHostAlloc)(&host, 64, 0));
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        CUresult result = CUDA_SUCCESS;
        size_t bytes;
        CUstream made = NULL;
        int word;
        CU(cuEventRecord)(join_event, b);
        CU(cuCtxSynchronize)();
        need("begin", CU(cuStreamBeginCapture_v2)(a, mode));
        switch (i) {
        case 0: result = CU(cuMemAlloc_v2)(&at, 256); break;
        case 1: result = CU(cuMemFreeHost)(host); break;
        case 2: result = CU(cuMemGetInfo_v2)(&bytes, &bytes); break;
        case 3: result = CU(cuEventQuery)(join_event); break;
        case 4: result = CU(cuStreamQuery)(b); break;
        case 5: result = CU(cuStreamCreate)(&made, 0); break;
        case 6: result = CU(cuMemcpyDtoH_v2)(&word, y, 4); break;
        }
        __builtin_snprintf(what, sizeof what, "%s_%s", name, calls[i]);
        ask(what, result);
        __builtin_snprintf(what, sizeof what, "%s_%s_end", name, calls[i]);
        CUgraph graph = NULL;
        ask(what, CU(cuStreamEndCapture)(a, &graph));
        if (graph)
            CU(cuGraphDestroy)(graph);
        if (made)
            CU(cuStreamDestroy_v2)(made);
        if (i == 0 && result == CUDA_SUCCESS)
            CU(cuMemFree_v2)(at);
        if (i == 1 && result == CUDA_SUCCESS)
            host = NULL;
    }
    if (host)
        CU(cuMemFreeHost)(host);
}

static void *
end_elsewhere(void *data)
{
    CUgraph graph = NULL;
    CU(cuCtxSetCurrent)(context);
    *(CUresult *)data = CU(cuStreamEndCapture)(a, &graph);
    if (graph)
        CU(cuGraphDestroy)(graph);
    return NULL;
}

static void *
alloc_elsewhere(void *data)
{
    CUdeviceptr at = 0;
    CU(cuCtxSetCurrent)(context);
    *(CUresult *)data = CU(cuMemAlloc_v2)(&at, 256);
    if (at)
        CU(cuMemFree_v2)(at);
    return NULL;
}

static CUresult
run_thread(void *(*body)(void *))
{
    CUresult result = CUDA_ERROR_UNKNOWN;
    pthread_t thread;
    pthread_create(&thread, NULL, body, &result);
    pthread_join(thread, NULL);
    return result;
}

static void
check_threads(void)
{
    need("begin", CU(cuStreamBeginCapture_v2)(a, LOCAL_));
    say("end_other_thread", run_thread(end_elsewhere));
    ask("end_own_thread", CU(cuStreamEndCapture)(a, &(CUgraph){NULL}));
    need("begin", CU(cuStreamBeginCapture_v2)(a, RELAXED_));
    say("end_other_thread_relaxed", run_thread(end_elsewhere));
    need("begin", CU(cuStreamBeginCapture_v2)(a, GLOBAL_));
    say("global_alloc_elsewhere", run_thread(alloc_elsewhere));
    ask("global_end", CU(cuStreamEndCapture)(a, &(CUgraph){NULL}));
    need("begin", CU(cuStreamBeginCapture_v2)(a, LOCAL_));
    say("local_alloc_elsewhere", run_thread(alloc_elsewhere));
    end("local_end", a);
    CUstreamCaptureMode mode = RELAXED_;
    say("exchange", CU(cuThreadExchangeStreamCaptureMode)(&mode));
    say("exchange_was", mode);
    need("begin", CU(cuStreamBeginCapture_v2)(a, GLOBAL_));
    CUdeviceptr at = 0;
    say("exchanged_alloc", CU(cuMemAlloc_v2)(&at, 256));
    end("exchanged_end", a);
    CU(cuMemFree_v2)(at);
    say("exchange_back", CU(cuThreadExchangeStreamCaptureMode)(&mode));
    say("exchange_back_was", mode);
    mode = (CUstreamCaptureMode)9;
    say("exchange_9", CU(cuThreadExchangeStreamCaptureMode)(&mode));
}

void
check_capture_errors(void)
{
    begin("capture_error");
    open_all();
    check_misuse();
    check_unjoined();
    check_waiting();
    check_mixing();
    unsafe_calls("global", GLOBAL_);
    unsafe_calls("local", LOCAL_);
    unsafe_calls("relaxed", RELAXED_);
    check_threads();
    close_all();
}
