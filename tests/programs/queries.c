/* SPDX-License-Identifier: Apache-2.0 */
/* Questions between the launches: is the stream done, is the event, how much
 * memory is there, whose is this pointer. What is printed must not depend on
 * how the driver places things. */
#include "tests/programs/model.h"

#include <stdlib.h>

static int steps = 24;
static const struct rt_option options[] = {
    {"steps", RT_INT, &steps, "steps of the optimizer"},
    {NULL, RT_FLAG, NULL, NULL},
};

static struct pupil pupil;
static size_t total_before;
static CUdeviceptr block;

enum { BLOCK = 3 << 20 };

static void
ask_memory(void)
{
    size_t left = 0, total = 0, again = 0;
    CU(cuMemGetInfo, &left, &total);
    CU(cuMemGetInfo, &again, NULL);
    if (total_before == 0)
        total_before = total;
    rt_print("memory %s %s\n", left <= total && left > 0 ? "sane" : "odd",
             total == total_before ? "same" : "changed");
}

static void
ask_pool(void)
{
    CUmemoryPool pool;
    cuuint64_t used = 0, high = 0, reserved = 0;
    CU(cuDeviceGetDefaultMemPool, &pool, rt_device);
    CU(cuMemPoolGetAttribute, pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used);
    CU(cuMemPoolGetAttribute, pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &high);
    CU(cuMemPoolGetAttribute, pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT,
       &reserved);
    rt_print("pool %s %s\n", used <= high ? "sane" : "odd",
             used <= reserved ? "sane" : "odd");
}

static void
ask_pointer(CUdeviceptr at, const char *name)
{
    unsigned type = 0, managed = 9;
    int device = -1;
    CUpointer_attribute which[] = {
        CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
        CU_POINTER_ATTRIBUTE_IS_MANAGED};
    void *answers[] = {&type, &device, &managed};
    CU(cuPointerGetAttributes, 3, which, answers, at);
    rt_print("%s type %u device %d managed %u\n", name, type, device,
             managed & 255);
}

static void
ask_range(void)
{
    CUdeviceptr base = 0;
    size_t bytes = 0;
    CUcontext context = NULL;
    CU(cuMemGetAddressRange, &base, &bytes, block + 12345);
    CU(cuPointerGetAttribute, &context, CU_POINTER_ATTRIBUTE_CONTEXT, block);
    rt_print("range %d %zu context %s\n", (int)(block - base), bytes,
             context == rt_context ? "ours" : "other");
}

static void
poll(float *loss, int step)
{
    float *host = rt_host_new(sizeof *host, 0);
    CUevent event = rt_event_new(CU_EVENT_DISABLE_TIMING);
    CUresult result;
    CU(cuMemcpyDtoHAsync, host, rt_ptr(loss), sizeof *host, rt_stream);
    CU(cuEventRecord, event, rt_stream);
    if (step % 2)
        while ((result = cu.cuStreamQuery(rt_stream)) ==
               CUDA_ERROR_NOT_READY)
            ;
    else
        while ((result = cu.cuEventQuery(event)) == CUDA_ERROR_NOT_READY)
            ;
    rt_check(result, "cuStreamQuery");
    rt_print("step %d loss %a\n", step, (double)*host);
    rt_event_free(event);
    rt_host_free(host);
    rt_free(loss);
}

int
main(int argc, char **argv)
{
    rt_start(argc, argv, options);
    pupil_open(&pupil);
    CU(cuMemAlloc, &block, BLOCK);
    rt_own(RT_MEMORY, (void *)block);
    for (int step = 0; step < steps; step++) {
        float *loss = pupil_step(&pupil);
        ask_memory();
        ask_pool();
        ask_pointer(rt_ptr(pupil.model.head.at) + 8, "weight");
        ask_pointer(rt_ptr(loss), "loss");
        ask_pointer(block + 99, "block");
        ask_range();
        poll(loss, step);
    }
    CU(cuMemFree, block);
    rt_disown(RT_MEMORY, (void *)block);
    pupil_free(&pupil);
    rt_end(0);
}
