/* SPDX-License-Identifier: Apache-2.0 */
/* Stream memory operations: wait for a value, write a value, in batches of
 * fewer than 256. A wait does not hold up the worker; it is looked at again
 * until it is fulfilled, also from the host or from another process. */
#include "sim.h"

#include <stdlib.h>
#include <string.h>

static bool
wide(const CUstreamBatchMemOpParams *op)
{
    return op->operation == CU_STREAM_MEM_OP_WAIT_VALUE_64 ||
           op->operation == CU_STREAM_MEM_OP_WRITE_VALUE_64;
}

static bool
condition_holds(const CUstreamBatchMemOpParams *op)
{
    uintptr_t at = (uintptr_t)op->waitValue.address;
    uint64_t have, want;
    bool geq;
    if (wide(op)) {
        have = __atomic_load_n((const uint64_t *)at, __ATOMIC_ACQUIRE);
        want = op->waitValue.value64;
        geq = (int64_t)(have - want) >= 0;
    } else {
        uint32_t have32 = __atomic_load_n((const uint32_t *)at,
                                          __ATOMIC_ACQUIRE);
        have = have32;
        want = op->waitValue.value;
        geq = (int32_t)(have32 - op->waitValue.value) >= 0;
    }
    switch (op->waitValue.flags & 3u) {
    case CU_STREAM_WAIT_VALUE_GEQ:
        return geq;
    case CU_STREAM_WAIT_VALUE_EQ:
        return have == want;
    case CU_STREAM_WAIT_VALUE_AND:
        return (have & want) != 0;
    default: /* NOR */
        return (wide(op) ? ~(have | want)
                         : (uint64_t)(uint32_t)~(have | want)) != 0;
    }
}

bool
sim_memop_step(const struct sim_work *work, uint32_t *step)
{
    for (; *step < work->memop.count; ++*step) {
        const CUstreamBatchMemOpParams *op = &work->memop.ops[*step];
        uintptr_t at = (uintptr_t)op->writeValue.address;
        switch (op->operation) {
        case CU_STREAM_MEM_OP_WAIT_VALUE_32:
        case CU_STREAM_MEM_OP_WAIT_VALUE_64:
            if (!condition_holds(op))
                return false;
            break;
        case CU_STREAM_MEM_OP_WRITE_VALUE_32:
            __atomic_store_n((uint32_t *)at, op->writeValue.value,
                             __ATOMIC_RELEASE);
            break;
        case CU_STREAM_MEM_OP_WRITE_VALUE_64:
            __atomic_store_n((uint64_t *)at, op->writeValue.value64,
                             __ATOMIC_RELEASE);
            break;
        default:
            break; /* flushes and barriers: memory is coherent here */
        }
    }
    return true;
}

static CUresult
op_check(const CUstreamBatchMemOpParams *op)
{
    switch (op->operation) {
    case CU_STREAM_MEM_OP_WAIT_VALUE_32:
    case CU_STREAM_MEM_OP_WAIT_VALUE_64:
    case CU_STREAM_MEM_OP_WRITE_VALUE_32:
    case CU_STREAM_MEM_OP_WRITE_VALUE_64:
        break;
    case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES:
    case CU_STREAM_MEM_OP_BARRIER:
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
    size_t bytes = wide(op) ? 8 : 4;
    uintptr_t at = (uintptr_t)op->writeValue.address;
    const struct sim_range *range = sim_range_find(at);
    if (at % bytes != 0 || range == NULL || range->place == SIM_MANAGED)
        return CUDA_ERROR_INVALID_VALUE;
    return sim_range_check(at, bytes, false);
}

CUresult
sim_memop_work_new(const CUstreamBatchMemOpParams *ops, unsigned count,
                   unsigned flags, struct sim_ctx *ctx, struct sim_work **out)
{
    if ((ops == NULL && count > 0) || count >= 256 || flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < count; i++) {
        CUresult result = op_check(&ops[i]);
        if (result != CUDA_SUCCESS)
            return result;
    }
    struct sim_work *work = sim_work_new(SIM_WORK_MEMOP);
    work->memop.ctx = ctx;
    work->memop.count = count;
    work->memop.flags = flags;
    work->memop.ops = malloc((count + 1) * sizeof *ops);
    if (count > 0)
        memcpy(work->memop.ops, ops, count * sizeof *ops);
    *out = work;
    return CUDA_SUCCESS;
}

static CUresult
batch(bool ptds, CUstream handle, unsigned count,
      const CUstreamBatchMemOpParams *ops, unsigned flags)
{
    struct sim_stream *stream = sim_stream_get(handle, ptds);
    if (stream == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    struct sim_work *work;
    CUresult result = sim_memop_work_new(ops, count, flags, stream->ctx, &work);
    if (result != CUDA_SUCCESS)
        return result;
    return sim_stream_submit(stream, work, NULL);
}

static CUresult
single(bool ptds, CUstream stream, CUstreamBatchMemOpType operation,
       CUdeviceptr at, uint64_t value, unsigned flags)
{
    CUstreamBatchMemOpParams op;
    memset(&op, 0, sizeof op);
    op.operation = operation;
    if (operation == CU_STREAM_MEM_OP_WAIT_VALUE_32 ||
        operation == CU_STREAM_MEM_OP_WAIT_VALUE_64) {
        op.waitValue.address = at;
        op.waitValue.value64 = value;
        op.waitValue.flags = flags;
        if (flags & ~(3u | CU_STREAM_WAIT_VALUE_FLUSH))
            return CUDA_ERROR_INVALID_VALUE;
    } else {
        op.writeValue.address = at;
        op.writeValue.value64 = value;
        op.writeValue.flags = flags;
        if (flags & ~(unsigned)CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER)
            return CUDA_ERROR_INVALID_VALUE;
    }
    return batch(ptds, stream, 1, &op, 0);
}

#define VALUE(name, ptds, operation, type)                                     \
    CUresult name(CUstream stream, CUdeviceptr at, type value,                 \
                  unsigned int flags)                                          \
    {                                                                          \
        SIM_API(SIM_CURRENT);                                                  \
        return single(ptds, stream, operation, at, value, flags);              \
    }
#define VALUES(name, operation, type)                                          \
    VALUE(name, false, operation, type)                                        \
    VALUE(name##_ptsz, true, operation, type)                                  \
    VALUE(name##_v2, false, operation, type)                                   \
    VALUE(name##_v2_ptsz, true, operation, type)

VALUES(cuStreamWaitValue32, CU_STREAM_MEM_OP_WAIT_VALUE_32, cuuint32_t)
VALUES(cuStreamWaitValue64, CU_STREAM_MEM_OP_WAIT_VALUE_64, cuuint64_t)
VALUES(cuStreamWriteValue32, CU_STREAM_MEM_OP_WRITE_VALUE_32, cuuint32_t)
VALUES(cuStreamWriteValue64, CU_STREAM_MEM_OP_WRITE_VALUE_64, cuuint64_t)

#define BATCH(name, ptds)                                                      \
    CUresult name(CUstream stream, unsigned int count,                         \
                  CUstreamBatchMemOpParams *ops, unsigned int flags)           \
    {                                                                          \
        SIM_API(SIM_CURRENT);                                                  \
        return batch(ptds, stream, count, ops, flags);                         \
    }

BATCH(cuStreamBatchMemOp, false)
BATCH(cuStreamBatchMemOp_ptsz, true)
BATCH(cuStreamBatchMemOp_v2, false)
BATCH(cuStreamBatchMemOp_v2_ptsz, true)
