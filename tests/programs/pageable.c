/* SPDX-License-Identifier: Apache-2.0 */
/* Copies from and to ordinary host memory that is overwritten right after the
 * call, of 4 bytes to 1 MiB, from the stack and the heap; and pinned buffers
 * used again as soon as an event says so. */
#include "tests/programs/model.h"

#include <stdlib.h>
#include <string.h>

enum { BIGGEST = 1 << 20, SIZES = 10 };

static int steps = 16;
static const struct rt_option options[] = {
    {"steps", RT_INT, &steps, "steps of the optimizer"},
    {NULL, RT_FLAG, NULL, NULL},
};

static const size_t sizes[SIZES] = {4,     64,    1000,   4096,   16384,
                                    65536, 65540, 262144, 524292, BIGGEST};
static struct pupil pupil;
static float *sums[SIZES], *pinned;
static CUevent event;

static void
fill_with(float *values, size_t bytes, int seed)
{
    uint64_t state = (uint64_t)seed * 77 + bytes;
    for (size_t i = 0; i < bytes / sizeof(float); i++) {
        state = state * 6364136223846793005ull + 1442695040888963407ull;
        values[i] = (float)(state >> 40) / 16777216.0f;
    }
}

/* Every form of copy to the device in its turn. */
static void
copy_up(float *device, const float *host, size_t bytes, int form)
{
    CUDA_MEMCPY2D box;
    switch (form % 4) {
    case 0:
        CU(cuMemcpyHtoDAsync, rt_ptr(device), host, bytes, rt_stream);
        break;
    case 1:
        CU(cuMemcpyAsync, rt_ptr(device), rt_ptr(host), bytes, rt_stream);
        break;
    case 2:
        memset(&box, 0, sizeof box);
        box.srcMemoryType = CU_MEMORYTYPE_HOST;
        box.srcHost = host;
        box.dstMemoryType = CU_MEMORYTYPE_DEVICE;
        box.dstDevice = rt_ptr(device);
        box.srcPitch = box.dstPitch = box.WidthInBytes = bytes / 4;
        box.Height = 4;
        CU(cuMemcpy2DAsync, &box, rt_stream);
        break;
    default:
        CU(cuStreamSynchronize, rt_stream); /* the copy knows no stream */
        CU(cuMemcpyHtoD, rt_ptr(device), host, bytes);
        CU(cuCtxSynchronize);
    }
}

static void
use(float *device, int which)
{
    int n = (int)(sizes[which] / sizeof(float));
    k_axpy(items((size_t)n), sums[which], 0.5f, device, n);
}

static void
from_stack(int which, int step)
{
    float values[1024];
    size_t bytes = sizes[which];
    float *device = rt_alloc(bytes);
    fill_with(values, bytes, step);
    copy_up(device, values, bytes, which + step);
    memset(values, 0xee, sizeof values);
    use(device, which);
    rt_free(device);
}

static void
from_heap(int which, int step)
{
    size_t bytes = sizes[which];
    float *device = rt_alloc(bytes), *values = malloc(bytes);
    if (values == NULL)
        abort();
    fill_with(values, bytes, step);
    copy_up(device, values, bytes, which + step);
    memset(values, 0xee, bytes);
    free(values);
    use(device, which);
    rt_free(device);
}

/* The same pinned buffer for all: once per polled event, once per wait. */
static void
from_pinned(int which, int step)
{
    size_t bytes = sizes[which];
    float *device = rt_alloc(bytes);
    fill_with(pinned, bytes, step + 1000);
    CU(cuMemcpyHtoDAsync, rt_ptr(device), pinned, bytes, rt_stream);
    CU(cuEventRecord, event, rt_stream);
    use(device, which);
    rt_free(device);
    if (which % 2) {
        CU(cuEventSynchronize, event);
        return;
    }
    CUresult result;
    while ((result = cu.cuEventQuery(event)) == CUDA_ERROR_NOT_READY)
        ;
    rt_check(result, "cuEventQuery");
}

/* A copy to ordinary memory is there when the call returns. */
static uint64_t
look(int which, int step, uint64_t hash)
{
    size_t bytes = sizes[which];
    if (which % 3 == step % 3) {
        CU(cuMemcpyDtoHAsync, pinned, rt_ptr(sums[which]), bytes, rt_stream);
        CU(cuStreamSynchronize, rt_stream);
        return rt_hash(hash, pinned, bytes);
    }
    float *values = malloc(bytes);
    if (values == NULL)
        abort();
    memset(values, 0x55, bytes);
    CU(cuMemcpyDtoHAsync, values, rt_ptr(sums[which]), bytes, rt_stream);
    hash = rt_hash(hash, values, bytes);
    free(values);
    return hash;
}

static void
train(int step)
{
    uint64_t hash = RT_HASH_START;
    float *loss = pupil_step(&pupil);
    for (int i = 0; i < SIZES; i++) {
        if (sizes[i] <= 4096)
            from_stack(i, step);
        else
            from_heap(i, step);
        from_pinned(i, step);
    }
    for (int i = 0; i < SIZES; i++)
        hash = look(i, step, hash);
    rt_print("step %d copies %016llx\n", step, (unsigned long long)hash);
    loss_print(step, loss);
}

int
main(int argc, char **argv)
{
    rt_start(argc, argv, options);
    pupil_open(&pupil);
    pinned = rt_host_new(BIGGEST, 0);
    event = rt_event_new(CU_EVENT_DISABLE_TIMING);
    for (int i = 0; i < SIZES; i++) {
        sums[i] = rt_alloc(sizes[i]);
        CU(cuMemsetD32Async, rt_ptr(sums[i]), 0x3f800000, sizes[i] / 4,
           rt_stream);
    }
    for (int step = 0; step < steps; step++)
        train(step);
    for (int i = 0; i < SIZES; i++)
        rt_free(sums[i]);
    pupil_free(&pupil);
    rt_host_free(pinned);
    rt_event_free(event);
    rt_end(0);
}
