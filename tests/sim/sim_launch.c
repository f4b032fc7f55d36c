/* SPDX-License-Identifier: Apache-2.0 */
/* Kernel launches. Parameters are copied when the call is made, from an array
 * of pointers or from a packed buffer. */
#include "sim.h"

#include <stdlib.h>
#include <string.h>

static CUresult
config_check(const struct sim_func *func, const CUDA_KERNEL_NODE_PARAMS_v3 *p)
{
    uint64_t threads = (uint64_t)p->blockDimX * p->blockDimY * p->blockDimZ;
    if (p->gridDimX == 0 || p->gridDimY == 0 || p->gridDimZ == 0 ||
        p->gridDimX > 2147483647 || p->gridDimY > 65535 ||
        p->gridDimZ > 65535 || threads == 0 || threads > 1024 ||
        p->blockDimZ > 64)
        return CUDA_ERROR_INVALID_VALUE;
    if (p->sharedMemBytes > (unsigned)func->max_dynamic)
        return CUDA_ERROR_INVALID_VALUE;
    if (p->kernelParams != NULL && p->extra != NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (func->param_count > 0 && p->kernelParams == NULL && p->extra == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

/* Finds the buffer and its size in `extra`. */
static CUresult
extra_read(void **extra, const void **buffer, size_t *bytes)
{
    *buffer = NULL;
    *bytes = 0;
    for (; *extra != CU_LAUNCH_PARAM_END; extra += 2) {
        if (*extra == CU_LAUNCH_PARAM_BUFFER_POINTER)
            *buffer = extra[1];
        else if (*extra == CU_LAUNCH_PARAM_BUFFER_SIZE)
            *bytes = *(const size_t *)extra[1];
        else
            return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

/* One allocation: pointers, then the packed parameters, aligned to 64. */
static CUresult
params_copy(struct sim_kernel_work *work, const struct sim_func *func,
            void **params, void **extra)
{
    const void *buffer = NULL;
    size_t given = 0;
    uint32_t count = func->param_count;
    size_t bytes = 0;
    if (count > 0)
        bytes = func->params[count - 1].offset + func->params[count - 1].bytes;
    if (extra) {
        CUresult result = extra_read(extra, &buffer, &given);
        if (result != CUDA_SUCCESS)
            return result;
        if (given > 0 && buffer == NULL)
            return CUDA_ERROR_INVALID_VALUE;
    }
    size_t room = given > bytes ? given : bytes;
    size_t head = (count * sizeof(void *) + 63) / 64 * 64;
    char *block = aligned_alloc(64, head + (room + 63) / 64 * 64 + 64);
    if (block == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    work->params = (void **)(void *)block;
    work->packed = (unsigned char *)block + head;
    work->bytes = bytes;
    work->count = count;
    work->extra = extra != NULL;
    work->extra_bytes = given;
    for (uint32_t i = 0; i < count; i++) {
        work->params[i] = work->packed + func->params[i].offset;
        if (!extra)
            memcpy(work->params[i], params[i], func->params[i].bytes);
    }
    if (extra && given > 0) { /* what is missing is not asked for */
        memset(work->packed, 0, bytes);
        memcpy(work->packed, buffer, given);
    }
    return CUDA_SUCCESS;
}

/* A cooperative launch needs all its blocks on the device at once. */
static bool
all_fit(const struct sim_kernel_work *work)
{
    uint64_t threads = (uint64_t)work->block[0] * work->block[1] *
                       work->block[2];
    uint64_t blocks = (uint64_t)work->grid[0] * work->grid[1] * work->grid[2];
    uint64_t each = 2048 / ((threads + 31) / 32 * 32);
    return blocks <= 132 * (each > 32 ? 32 : each);
}

CUresult
sim_kernel_work_attr(struct sim_work *work, CUlaunchAttributeID id,
                     const CUlaunchAttributeValue *value)
{
    struct sim_kernel_work *kernel = &work->kernel;
    if (id == CU_LAUNCH_ATTRIBUTE_IGNORE)
        return CUDA_SUCCESS;
    if ((unsigned)id >= SIM_LAUNCH_ATTRS)
        return CUDA_ERROR_INVALID_VALUE;
    if (id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE && value->cooperative &&
        kernel->extra && kernel->extra_bytes > 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE && value->cooperative &&
        !all_fit(kernel))
        return CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
    if (id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION &&
        (value->clusterDim.x == 0 || value->clusterDim.y == 0 ||
         value->clusterDim.z == 0 ||
         kernel->grid[0] % value->clusterDim.x != 0 ||
         kernel->grid[1] % value->clusterDim.y != 0 ||
         kernel->grid[2] % value->clusterDim.z != 0))
        return CUDA_ERROR_INVALID_VALUE;
    if (kernel->attrs == NULL)
        kernel->attrs = calloc(SIM_LAUNCH_ATTRS, sizeof *kernel->attrs);
    kernel->attrs[id] = *value;
    kernel->attr_mask |= 1u << id;
    return CUDA_SUCCESS;
}

CUresult
sim_kernel_work_new(const CUDA_KERNEL_NODE_PARAMS_v3 *p,
                    const CUlaunchAttribute *attrs, unsigned count,
                    struct sim_work **out)
{
    struct sim_func *func = sim_func_get(p->func ? (void *)p->func
                                                 : (void *)p->kern);
    if (func == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    CUresult result = config_check(func, p);
    if (result != CUDA_SUCCESS)
        return result;
    struct sim_work *work = sim_work_new(SIM_WORK_KERNEL);
    struct sim_kernel_work *kernel = &work->kernel;
    kernel->func = func;
    kernel->kern = p->func ? NULL : p->kern;
    kernel->ctx = func->ctx;
    kernel->grid[0] = p->gridDimX;
    kernel->grid[1] = p->gridDimY;
    kernel->grid[2] = p->gridDimZ;
    kernel->block[0] = p->blockDimX;
    kernel->block[1] = p->blockDimY;
    kernel->block[2] = p->blockDimZ;
    kernel->shared = p->sharedMemBytes;
    result = params_copy(kernel, func, p->kernelParams, p->extra);
    for (unsigned i = 0; i < count && result == CUDA_SUCCESS; i++)
        result = sim_kernel_work_attr(work, attrs[i].id, &attrs[i].value);
    if (result != CUDA_SUCCESS) {
        sim_work_drop(work);
        return result;
    }
    *out = work;
    return CUDA_SUCCESS;
}

CUresult
sim_kernel_run(const struct sim_kernel_work *work)
{
    static void *shared; /* of the worker thread */
    static size_t shared_room;
    size_t bytes = (size_t)work->shared + work->func->shared;
    if (bytes > shared_room) {
        free(shared);
        shared_room = (bytes + 4095) / 4096 * 4096;
        shared = aligned_alloc(128, shared_room);
    }
    struct dcpsim_launch launch = {
        .shared_bytes = (uint32_t)bytes, .shared = shared,
        .params = work->params, .packed = work->packed};
    memcpy(launch.grid, work->grid, sizeof launch.grid);
    memcpy(launch.block, work->block, sizeof launch.block);
    CUresult fault = sim_fail_kernel(work->func->name);
    if (fault == CUDA_SUCCESS && work->func->run)
        work->func->run(&launch);
    return fault;
}

/* Launch attributes that record an event behind the kernel. */
static void
record_events(struct sim_stream *stream, const struct sim_kernel_work *work)
{
    if (work->attrs == NULL || stream->capture)
        return;
    const CUevent handles[] = {
        work->attrs[CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT]
            .programmaticEvent.event,
        work->attrs[CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT]
            .launchCompletionEvent.event};
    for (size_t i = 0; i < SIM_COUNT(handles); i++) {
        struct sim_event *event = sim_object_get(handles[i], SIM_EVENT);
        if (event)
            sim_event_record(event, stream, 0);
    }
}

static CUresult
launch(bool ptds, CUstream handle, const CUDA_KERNEL_NODE_PARAMS_v3 *params,
       const CUlaunchAttribute *attrs, unsigned count)
{
    if (params->func == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    struct sim_stream *stream = sim_stream_get(handle, ptds);
    if (stream == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    if (stream->capture && stream->capture->broken)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    struct sim_work *work;
    CUresult result = sim_kernel_work_new(params, attrs, count, &work);
    if (result != CUDA_SUCCESS)
        return result;
    if (work->kernel.func->run == NULL) {
        sim_work_drop(work);
        return CUDA_ERROR_NO_BINARY_FOR_GPU;
    }
    if (stream->capture && stream->priority != 0 &&
        !(work->kernel.attr_mask & 1u << CU_LAUNCH_ATTRIBUTE_PRIORITY)) {
        CUlaunchAttributeValue value;
        memset(&value, 0, sizeof value);
        value.priority = stream->priority;
        sim_kernel_work_attr(work, CU_LAUNCH_ATTRIBUTE_PRIORITY, &value);
    }
    sim_work_ref(work);
    result = sim_stream_submit(stream, work, NULL);
    if (result == CUDA_SUCCESS)
        record_events(stream, &work->kernel);
    sim_work_drop(work);
    return result;
}

#define LAUNCH(name, ptds)                                                     \
    CUresult name(CUfunction func, unsigned int gx, unsigned int gy,           \
                  unsigned int gz, unsigned int bx, unsigned int by,           \
                  unsigned int bz, unsigned int shared, CUstream stream,       \
                  void **params, void **extra)                                 \
    {                                                                          \
        SIM_API(SIM_CURRENT);                                                  \
        CUDA_KERNEL_NODE_PARAMS_v3 p = {func, gx, gy, gz, bx, by, bz, shared,  \
                                        params, extra, NULL, NULL};            \
        return launch(ptds, stream, &p, NULL, 0);                              \
    }
LAUNCH(cuLaunchKernel, false)
LAUNCH(cuLaunchKernel_ptsz, true)

#define LAUNCH_EX(name, ptds)                                                  \
    CUresult name(const CUlaunchConfig *config, CUfunction func,               \
                  void **params, void **extra)                                 \
    {                                                                          \
        SIM_API(SIM_CURRENT);                                                  \
        if (config == NULL || (config->numAttrs > 0 && config->attrs == NULL)) \
            return CUDA_ERROR_INVALID_VALUE;                                   \
        CUDA_KERNEL_NODE_PARAMS_v3 p = {                                       \
            func, config->gridDimX, config->gridDimY, config->gridDimZ,        \
            config->blockDimX, config->blockDimY, config->blockDimZ,           \
            config->sharedMemBytes, params, extra, NULL, NULL};                \
        return launch(ptds, config->hStream, &p, config->attrs,                \
                      config->numAttrs);                                       \
    }
LAUNCH_EX(cuLaunchKernelEx, false)
LAUNCH_EX(cuLaunchKernelEx_ptsz, true)

#define LAUNCH_COOPERATIVE(name, ptds)                                         \
    CUresult name(CUfunction func, unsigned int gx, unsigned int gy,           \
                  unsigned int gz, unsigned int bx, unsigned int by,           \
                  unsigned int bz, unsigned int shared, CUstream stream,       \
                  void **params)                                               \
    {                                                                          \
        SIM_API(SIM_CURRENT);                                                  \
        CUDA_KERNEL_NODE_PARAMS_v3 p = {func, gx, gy, gz, bx, by, bz, shared,  \
                                        params, NULL, NULL, NULL};             \
        CUlaunchAttribute attr;                                                \
        memset(&attr, 0, sizeof attr);                                         \
        attr.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;                             \
        attr.value.cooperative = 1;                                            \
        return launch(ptds, stream, &p, &attr, 1);                             \
    }
LAUNCH_COOPERATIVE(cuLaunchCooperativeKernel, false)
LAUNCH_COOPERATIVE(cuLaunchCooperativeKernel_ptsz, true)
