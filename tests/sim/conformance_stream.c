/* SPDX-License-Identifier: Apache-2.0 */
/* Checks: streams and their order, events, memory operations, host
 * functions. */
#include "conformance.h"

#include <string.h>
#include <unistd.h>

static int host_calls;

static void
count_call(void *data)
{
    __atomic_add_fetch(&host_calls, *(int *)data, __ATOMIC_SEQ_CST);
}

static CUresult inside;

static void
call_driver(void *data)
{
    (void)data;
    CUdeviceptr at;
    inside = CU(cuMemAlloc_v2)(&at, 256);
}

static int callback_status = 99;

static void
note_status(CUstream stream, CUresult status, void *data)
{
    (void)stream, (void)data;
    __atomic_store_n(&callback_status, (int)status, __ATOMIC_SEQ_CST);
}

/* Whether the stream comes to rest within a while. */
static bool
comes_to_rest(CUstream stream)
{
    for (int i = 0; i < 2000; i++) {
        if (CU(cuStreamQuery)(stream) == CUDA_SUCCESS)
            return true;
        usleep(1000);
    }
    return false;
}

static void
check_order(void)
{
    CUstream blocking = stream_new(CU_STREAM_DEFAULT);
    CUstream aside = stream_new(CU_STREAM_NON_BLOCKING);
    struct gate gate = gate_new();
    CUdeviceptr y = 0;
    need("alloc", CU(cuMemAlloc_v2)(&y, 4096));
    gate_close(&gate, blocking);
    say("blocked_query", CU(cuStreamQuery)(blocking));
    say("launch_legacy", launch_fill(NULL, y, 1.0f, 64));
    say("launch_aside", launch_fill(aside, y + 1024, 2.0f, 64));
    say("aside_ends", comes_to_rest(aside));
    say("legacy_waits", CU(cuStreamQuery)(NULL));
    say("launch_behind", launch_fill(blocking, y, 3.0f, 64));
    gate_open(&gate);
    say("synchronize", CU(cuStreamSynchronize)(blocking));
    say("legacy_ended", CU(cuStreamQuery)(NULL));
    say("value", (long long)read_float(y, 5));
    /* a blocking stream waits for what the legacy stream was given before */
    gate_close(&gate, NULL);
    say("behind_legacy", launch_fill(blocking, y, 4.0f, 64));
    say("behind_legacy_waits", CU(cuStreamQuery)(blocking));
    say("own_waits_too", launch_fill(CU_STREAM_PER_THREAD, y, 5.0f, 64));
    say("own_query", CU(cuStreamQuery)(CU_STREAM_PER_THREAD));
    say("aside_does_not", launch_fill(aside, y + 1024, 6.0f, 64));
    say("aside_ends_again", comes_to_rest(aside));
    gate_open(&gate);
    say("synchronize_all", CU(cuCtxSynchronize)());
    CU(cuMemFree_v2)(y);
    CU(cuStreamDestroy_v2)(blocking);
    CU(cuStreamDestroy_v2)(aside);
    gate_free(&gate);
}

static void
check_host_functions(void)
{
    CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
    int one = 1, ten = 10;
    say("host", CU(cuLaunchHostFunc)(stream, count_call, &one));
    say("host_again", CU(cuLaunchHostFunc)(stream, count_call, &ten));
    say("host_null", CU(cuLaunchHostFunc)(stream, NULL, &ten));
    say("host_synchronize", CU(cuStreamSynchronize)(stream));
    say("host_calls", host_calls);
    CU(cuLaunchHostFunc)(stream, call_driver, NULL);
    CU(cuStreamSynchronize)(stream);
    ask("host_calls_driver", inside);
    say("callback", CU(cuStreamAddCallback)(stream, note_status, NULL, 0));
    say("callback_flags",
        CU(cuStreamAddCallback)(stream, note_status, NULL, 1));
    CU(cuStreamSynchronize)(stream);
    say("callback_status", callback_status);
    CU(cuStreamDestroy_v2)(stream);
}

void
check_stream(void)
{
    CUstream stream = NULL, other = NULL;
    unsigned flags = 99;
    int priority = 99;
    unsigned long long id = 0, id_2 = 0;
    CUcontext ctx = NULL;
    begin("stream");
    say("create_flags", CU(cuStreamCreate)(&stream, 64));
    say("create_null", CU(cuStreamCreate)(NULL, 0));
    say("create", CU(cuStreamCreateWithPriority)(
                      &stream, CU_STREAM_NON_BLOCKING, -100));
    say("get_priority", CU(cuStreamGetPriority)(stream, &priority));
    say("priority_clamped", priority);
    say("get_flags", CU(cuStreamGetFlags)(stream, &flags));
    say("flags", flags);
    say("get_ctx", CU(cuStreamGetCtx)(stream, &ctx));
    say("ctx_same", ctx == context);
    say("create_other", CU(cuStreamCreate)(&other, 0));
    CU(cuStreamGetId)(stream, &id);
    say("get_id", CU(cuStreamGetId)(other, &id_2));
    say("ids_differ", id != id_2);
    say("legacy_flags", CU(cuStreamGetFlags)(NULL, &flags));
    ask("legacy_flags", flags);
    say("own_flags", CU(cuStreamGetFlags)(CU_STREAM_PER_THREAD, &flags));
    ask("own_flags", flags);
    say("query", CU(cuStreamQuery)(stream));
    say("destroy", CU(cuStreamDestroy_v2)(stream));
    say("destroy_null", CU(cuStreamDestroy_v2)(NULL));
    ask("destroy_legacy", CU(cuStreamDestroy_v2)(CU_STREAM_LEGACY));
    CUstreamAttrValue value;
    memset(&value, 0, sizeof value);
    say("get_policy", CU(cuStreamGetAttribute)(
                          other, CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY,
                          &value));
    ask("policy", value.syncPolicy);
    say("destroy_other", CU(cuStreamDestroy_v2)(other));
    check_order();
    check_host_functions();
}

void
check_event(void)
{
    CUevent a = NULL, b = NULL, untimed = NULL;
    CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
    CUstream second = stream_new(CU_STREAM_NON_BLOCKING);
    struct gate gate = gate_new();
    float ms = -1;
    CUdeviceptr y = 0;
    begin("event");
    need("alloc", CU(cuMemAlloc_v2)(&y, 4096));
    say("create_flags", CU(cuEventCreate)(&a, 64));
    say("create", CU(cuEventCreate)(&a, 0));
    say("create_b", CU(cuEventCreate)(&b, CU_EVENT_BLOCKING_SYNC));
    say("create_untimed", CU(cuEventCreate)(&untimed, CU_EVENT_DISABLE_TIMING));
    say("create_ipc_timed", CU(cuEventCreate)(&b, CU_EVENT_INTERPROCESS));
    say("query_new", CU(cuEventQuery)(a));
    say("synchronize_new", CU(cuEventSynchronize)(a));
    say("elapsed_new", CU(cuEventElapsedTime_v2)(&ms, a, b));
    gate_close(&gate, stream);
    say("record", CU(cuEventRecord)(a, stream));
    say("query_recorded", CU(cuEventQuery)(a));
    say("wait", CU(cuStreamWaitEvent)(second, a, 0));
    say("launch_behind", launch_fill(second, y, 1.0f, 64));
    say("second_waits", CU(cuStreamQuery)(second));
    CU(cuEventRecord)(b, second);
    say("elapsed_not_ready", CU(cuEventElapsedTime)(&ms, a, b));
    gate_open(&gate);
    say("synchronize", CU(cuEventSynchronize)(b));
    say("query_done", CU(cuEventQuery)(a));
    say("elapsed", CU(cuEventElapsedTime)(&ms, a, b));
    say("elapsed_v2", CU(cuEventElapsedTime_v2)(&ms, a, b));
    say("elapsed_positive", ms >= 0);
    CU(cuEventRecord)(untimed, stream);
    CU(cuEventSynchronize)(untimed);
    say("elapsed_untimed", CU(cuEventElapsedTime_v2)(&ms, a, untimed));
    say("elapsed_null", CU(cuEventElapsedTime_v2)(NULL, a, b));
    /* an event stands for the latest record before the wait */
    gate_close(&gate, stream);
    CU(cuEventRecord)(a, stream);
    say("wait_first", CU(cuStreamWaitEvent)(second, a, 0));
    say("record_elsewhere", CU(cuEventRecord)(a, NULL));
    say("synchronize_elsewhere", CU(cuEventSynchronize)(a));
    say("second_still_waits", CU(cuStreamQuery)(second));
    gate_open(&gate);
    CU(cuCtxSynchronize)();
    say("wait_flags", CU(cuStreamWaitEvent)(second, a, 64));
    say("record_flags", CU(cuEventRecordWithFlags)(a, stream, 64));
    ask("record_external_plain",
        CU(cuEventRecordWithFlags)(a, stream, CU_EVENT_RECORD_EXTERNAL));
    ask("wait_external_plain",
        CU(cuStreamWaitEvent)(stream, a, CU_EVENT_WAIT_EXTERNAL));
    say("destroy", CU(cuEventDestroy_v2)(a));
    say("destroy_null", CU(cuEventDestroy_v2)(NULL));
    say("record_null", CU(cuEventRecord)(NULL, stream));
    CU(cuEventDestroy_v2)(b);
    CU(cuEventDestroy_v2)(untimed);
    CU(cuMemFree_v2)(y);
    CU(cuStreamDestroy_v2)(stream);
    CU(cuStreamDestroy_v2)(second);
    gate_free(&gate);
}

static void
check_waits(CUdeviceptr word, CUstream stream)
{
    static const struct {
        const char *name;
        unsigned flags;
        uint32_t have, want;
        bool passes;
    } cases[] = {
        {"geq_equal", CU_STREAM_WAIT_VALUE_GEQ, 5, 5, true},
        {"geq_more", CU_STREAM_WAIT_VALUE_GEQ, 6, 5, true},
        {"geq_less", CU_STREAM_WAIT_VALUE_GEQ, 4, 5, false},
        {"geq_wraps", CU_STREAM_WAIT_VALUE_GEQ, 1, 0xfffffff0u, true},
        {"eq", CU_STREAM_WAIT_VALUE_EQ, 5, 5, true},
        {"eq_more", CU_STREAM_WAIT_VALUE_EQ, 6, 5, false},
        {"and", CU_STREAM_WAIT_VALUE_AND, 6, 4, true},
        {"and_none", CU_STREAM_WAIT_VALUE_AND, 6, 8, false},
        {"nor", CU_STREAM_WAIT_VALUE_NOR, 0, 1, true},
        {"nor_all", CU_STREAM_WAIT_VALUE_NOR, 0xfffffff0u, 15, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        CU(cuMemsetD32_v2)(word, cases[i].have, 1);
        CU(cuCtxSynchronize)();
        CU(cuStreamWaitValue32_v2)(stream, word, cases[i].want, cases[i].flags);
        usleep(20000);
        bool passed = CU(cuStreamQuery)(stream) == CUDA_SUCCESS;
        say(cases[i].name, passed == cases[i].passes ? passed : 99);
        if (!passed) { /* let it go: all bits that it can ask for, in turn */
            uint32_t free_word = cases[i].flags == CU_STREAM_WAIT_VALUE_NOR
                                     ? 0 : cases[i].want;
            CUstream other = stream_new(CU_STREAM_NON_BLOCKING);
            CU(cuStreamWriteValue32_v2)(other, word, free_word, 0);
            say("released", comes_to_rest(stream));
            CU(cuStreamDestroy_v2)(other);
        }
    }
}

void
check_memop(void)
{
    CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
    CUdeviceptr word = 0;
    uint32_t back[4] = {0, 0, 0, 0};
    begin("memop");
    need("alloc", CU(cuMemAlloc_v2)(&word, 4096));
    CU(cuMemsetD8_v2)(word, 0, 4096);
    CU(cuCtxSynchronize)(); /* a memset does not wait */
    say("write_32", CU(cuStreamWriteValue32_v2)(stream, word, 7, 0));
    say("write_64", CU(cuStreamWriteValue64_v2)(stream, word + 8,
                                                0x100000002ull, 0));
    say("wait_64", CU(cuStreamWaitValue64_v2)(stream, word + 8, 0x100000002ull,
                                              CU_STREAM_WAIT_VALUE_EQ));
    say("synchronize", CU(cuStreamSynchronize)(stream));
    CU(cuMemcpyDtoH_v2)(back, word, 16);
    say("value_32", back[0]);
    say("value_64_high", back[3]);
    say("write_odd", CU(cuStreamWriteValue32_v2)(stream, word + 2, 7, 0));
    say("write_unknown", CU(cuStreamWriteValue32_v2)(stream, 4096, 7, 0));
    say("write_flags", CU(cuStreamWriteValue32_v2)(stream, word, 7, 64));
    CUstreamBatchMemOpParams ops[256];
    memset(ops, 0, sizeof ops);
    for (int i = 0; i < 256; i++) {
        ops[i].operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
        ops[i].writeValue.address = word + 4 * (CUdeviceptr)i;
        ops[i].writeValue.value = (uint32_t)i;
    }
    say("batch_0", CU(cuStreamBatchMemOp_v2)(stream, 0, ops, 0));
    say("batch_255", CU(cuStreamBatchMemOp_v2)(stream, 255, ops, 0));
    say("batch_256", CU(cuStreamBatchMemOp_v2)(stream, 256, ops, 0));
    say("batch_flags", CU(cuStreamBatchMemOp_v2)(stream, 2, ops, 64));
    ops[1].operation = (CUstreamBatchMemOpType)77;
    say("batch_unknown", CU(cuStreamBatchMemOp_v2)(stream, 2, ops, 0));
    CU(cuStreamSynchronize)(stream);
    CU(cuMemcpyDtoH_v2)(back, word + 4 * 251, 16);
    say("batch_value", back[3]);
    check_waits(word, stream);
    CU(cuStreamDestroy_v2)(stream);
    CU(cuMemFree_v2)(word);
}
