/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "capture/access_gpu.h"

#include "intercept/heap.h"
#include "intercept/hook.h"

#include "src/clock.h"

#include <string.h>
#include <time.h>

enum { WAIT_NS = 300 * 1000 * 1000 };

enum { THREADS = 256, GRID_MAX = 1024, THREAD_BYTES = 64 };

static bool
gpu_find(void *user, uint64_t address, struct dcp_access_block *out)
{
    struct dcp_block block;

    (void)user;
    if (!dcp_heap_find(address, &block))
        return false;
    *out = (struct dcp_access_block){block.id, block.base, block.bytes};
    return true;
}

static bool
launch(CUfunction kernel, uint64_t stream, uint64_t bytes, void **params)
{
    uint64_t grid =
        (bytes + THREADS * THREAD_BYTES - 1) / (THREADS * THREAD_BYTES);

    if (grid > GRID_MAX)
        grid = GRID_MAX;
    if (grid == 0)
        grid = 1;
    return dcp_real.cuLaunchKernel(kernel, (unsigned)grid, 1, 1, THREADS, 1, 1,
                                   0, (CUstream)stream, params,
                                   NULL) == CUDA_SUCCESS;
}

static bool
gpu_hash(void *user, uint64_t stream, uint64_t address, uint64_t bytes,
         uint32_t index)
{
    struct dcp_access_gpu *gpu = user;
    uint64_t result = (uint64_t)(gpu->results + index);
    void *params[] = {&address, &bytes, &result};

    return index < DCP_ACCESS_RESULTS &&
           launch(gpu->hash, stream, bytes, params);
}

static bool
gpu_fill(void *user, uint64_t stream, uint64_t address, uint64_t bytes)
{
    struct dcp_access_gpu *gpu = user;
    void *params[] = {&address, &bytes};

    return launch(gpu->pattern, stream, bytes, params);
}

static bool
gpu_read(void *user, uint64_t stream, uint64_t *results, uint32_t count)
{
    struct dcp_access_gpu *gpu = user;
    uint64_t end = dcp_now_ns() + WAIT_NS;
    CUresult result;

    /* Never a plain wait: the stream may be waiting for something that the
     * program does only after the call that this is part of. */
    while ((result = dcp_real.cuStreamQuery((CUstream)stream)) ==
           CUDA_ERROR_NOT_READY) {
        struct timespec pause = {0, 20000};
        if (dcp_now_ns() > end) {
            gpu->stuck = true;
            return false;
        }
        nanosleep(&pause, NULL);
    }
    if (result != CUDA_SUCCESS)
        return false;
    memcpy(results, gpu->results, count * sizeof *results);
    memset(gpu->results, 0, count * sizeof *results);
    return true;
}

struct dcp_access_ops
dcp_access_gpu_ops(struct dcp_access_gpu *gpu)
{
    return (struct dcp_access_ops){
        .find = gpu_find,
        .hash = gpu_hash,
        .fill = gpu_fill,
        .read = gpu_read,
        .user = gpu,
    };
}
