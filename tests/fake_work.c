/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels, and work as it reaches streams; pinned memory. Graphs are in
 * fake_graph.c. */
#include "config.h"

#include "tests/fake_graph.h"

#include <stdlib.h>
#include <string.h>

struct fake_graph fake_graph;

enum { HOSTS = 256 };

static struct {
    char *at;
    size_t bytes;
} host[HOSTS];

#define RULE(kept)                                                             \
    do {                                                                       \
        if (!(kept)) {                                                         \
            fake.broken++;                                                     \
            return CUDA_ERROR_INVALID_VALUE;                                   \
        }                                                                      \
    } while (0)

/* --- kernels -------------------------------------------------------------- */

static CUresult
param_of(const struct fake_kernel *kernel, size_t index, size_t *offset,
         size_t *bytes)
{
    if (index >= kernel->count)
        return CUDA_ERROR_INVALID_VALUE;
    *offset = kernel->param[index].offset;
    *bytes = kernel->param[index].bytes;
    return CUDA_SUCCESS;
}

static CUresult
kernel_param(CUkernel handle, size_t index, size_t *offset, size_t *bytes)
{
    const struct fake_kernel *kernel = (const void *)handle;

    if (!kernel->is_kernel)
        return CUDA_ERROR_INVALID_HANDLE;
    return param_of(kernel, index, offset, bytes);
}

static CUresult
func_param(CUfunction handle, size_t index, size_t *offset, size_t *bytes)
{
    const struct fake_kernel *kernel = (const void *)handle;

    if (kernel->is_kernel || kernel->nameless)
        return CUDA_ERROR_INVALID_HANDLE;
    return param_of(kernel, index, offset, bytes);
}

static CUresult
kernel_name(const char **name, CUkernel handle)
{
    const struct fake_kernel *kernel = (const void *)handle;

    if (!kernel->is_kernel)
        return CUDA_ERROR_INVALID_HANDLE;
    *name = kernel->name;
    return CUDA_SUCCESS;
}

static CUresult
func_name(const char **name, CUfunction handle)
{
    const struct fake_kernel *kernel = (const void *)handle;

    if (kernel->is_kernel || kernel->nameless)
        return CUDA_ERROR_INVALID_HANDLE;
    *name = kernel->name;
    return CUDA_SUCCESS;
}

/* --- work ----------------------------------------------------------------- */

CUresult
fake_work_add(const struct fake_work *work)
{
    CUresult result;

    if (fake_graph_takes(work, &result))
        return result;
    RULE(fake_graph.work_count < FAKE_WORK);
    fake_graph.work[fake_graph.work_count++] = *work;
    for (int s = 0; s < FAKE_STREAMS; s++)
        if (fake_stream(s) == work->stream)
            fake.issued[s]++;
    return CUDA_SUCCESS;
}

uint64_t
fake_first_word(const struct fake_kernel *kernel, void **params)
{
    uint64_t word = 0;
    size_t bytes = kernel->count ? kernel->param[0].bytes : 0;

    if (bytes)
        memcpy(&word, params[0], bytes < 8 ? bytes : 8);
    return word;
}

static CUresult
launch_with(CUfunction handle, unsigned grid, CUstream stream, void **params,
            unsigned attrs, bool together)
{
    const struct fake_kernel *kernel = (const void *)handle;
    struct fake_work work = {
        .kind = 'k',
        .kernel = kernel,
        .stream = stream,
        .value = {grid, fake_first_word(kernel, params), attrs, together},
    };

    return fake_work_add(&work);
}

static CUresult
launch(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
       unsigned by, unsigned bz, unsigned shared, CUstream stream,
       void **params, void **extra)
{
    (void)shared;
    RULE(gx && gy && gz && bx && by && bz && !extra);
    return launch_with(f, gx, stream, params, 0, false);
}

static CUresult
launch_ex(const CUlaunchConfig *config, CUfunction f, void **params,
          void **extra)
{
    RULE(!extra);
    return launch_with(f, config->gridDimX, config->hStream, params,
                       config->numAttrs, false);
}

static CUresult
launch_together(CUfunction f, unsigned gx, unsigned gy, unsigned gz,
                unsigned bx, unsigned by, unsigned bz, unsigned shared,
                CUstream stream, void **params)
{
    (void)shared;
    RULE(gx && gy && gz && bx && by && bz);
    return launch_with(f, gx, stream, params, 0, true);
}

static CUresult
copy_add(uint64_t to, uint64_t from, size_t bytes, CUstream stream)
{
    struct fake_work work = {
        .kind = 'c', .stream = stream, .value = {to, from, bytes}};

    return fake_work_add(&work);
}

static CUresult
upload(CUdeviceptr to, const void *from, size_t bytes, CUstream stream)
{
    return copy_add(to, (uint64_t)from, bytes, stream);
}

static CUresult
download(void *to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    return copy_add((uint64_t)to, from, bytes, stream);
}

static CUresult
inside(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    return copy_add(to, from, bytes, stream);
}

static CUresult
fill_add(CUdeviceptr to, unsigned value, size_t width, unsigned element,
         CUstream stream)
{
    struct fake_work work = {
        .kind = 'f', .stream = stream, .value = {to, value, width, element}};

    return fake_work_add(&work);
}

static CUresult
fill8(CUdeviceptr to, unsigned char value, size_t width, CUstream stream)
{
    return fill_add(to, value, width, 1, stream);
}

static CUresult
fill16(CUdeviceptr to, unsigned short value, size_t width, CUstream stream)
{
    return fill_add(to, value, width, 2, stream);
}

static CUresult
fill32(CUdeviceptr to, unsigned value, size_t width, CUstream stream)
{
    return fill_add(to, value, width, 4, stream);
}

/* --- streams and events --------------------------------------------------- */

static CUresult
stream_create(CUstream *out, unsigned flags)
{
    (void)flags;
    *out = (CUstream)(uintptr_t)0xcaf0;
    return CUDA_SUCCESS;
}

static CUresult
stream_destroy(CUstream stream)
{
    RULE(stream == (CUstream)(uintptr_t)0xcaf0);
    return CUDA_SUCCESS;
}

static CUresult
stream_synchronize(CUstream stream)
{
    RULE(!fake_graph_captures(stream));
    fake.syncs++;
    memcpy(fake.completed, fake.issued, sizeof fake.issued);
    return CUDA_SUCCESS;
}

static CUresult
event_synchronize(CUevent event)
{
    CUresult result = dcp_real.cuEventQuery(event);

    if (result != CUDA_ERROR_NOT_READY)
        return result;
    fake.syncs++;
    memcpy(fake.completed, fake.issued, sizeof fake.issued);
    return CUDA_SUCCESS;
}

static CUresult
context_get(CUcontext *context)
{
    *context = (CUcontext)(uintptr_t)0xc0;
    return CUDA_SUCCESS;
}

/* --- pinned memory -------------------------------------------------------- */

static CUresult
host_alloc(void **out, size_t bytes, unsigned flags)
{
    (void)flags;
    if (fake_graph.refuse_host)
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (int i = 0; i < HOSTS; i++)
        if (!host[i].at) {
            *out = host[i].at = calloc(1, bytes);
            host[i].bytes = bytes;
            fake_graph.hosts++;
            return CUDA_SUCCESS;
        }
    return CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult
host_free(void *at)
{
    for (int i = 0; at && i < HOSTS; i++)
        if (host[i].at == at) {
            host[i].at = NULL;
            free(at);
            fake_graph.hosts--;
            return CUDA_SUCCESS;
        }
    fake.broken++;
    return CUDA_ERROR_INVALID_VALUE;
}

static CUresult
pointer_attribute(void *out, CUpointer_attribute which, CUdeviceptr address)
{
    RULE(which == CU_POINTER_ATTRIBUTE_MEMORY_TYPE);
    for (int i = 0; i < HOSTS; i++)
        if (host[i].at && address - (uint64_t)host[i].at < host[i].bytes) {
            *(unsigned *)out = CU_MEMORYTYPE_HOST;
            return CUDA_SUCCESS;
        }
    if (address >> 40 != 0xd) /* the tests' device memory: 0xd'00'0000'0000 */
        return CUDA_ERROR_INVALID_VALUE;
    *(unsigned *)out = CU_MEMORYTYPE_DEVICE;
    return CUDA_SUCCESS;
}

void
fake_work_start(void)
{
    dcp_real.cuKernelGetParamInfo = kernel_param;
    dcp_real.cuFuncGetParamInfo = func_param;
    dcp_real.cuKernelGetName = kernel_name;
    dcp_real.cuFuncGetName = func_name;
    dcp_real.cuLaunchKernel = launch;
    dcp_real.cuLaunchKernelEx = launch_ex;
    dcp_real.cuLaunchCooperativeKernel = launch_together;
    dcp_real.cuMemcpyHtoDAsync_v2 = upload;
    dcp_real.cuMemcpyDtoHAsync_v2 = download;
    dcp_real.cuMemcpyDtoDAsync_v2 = inside;
    dcp_real.cuMemsetD8Async = fill8;
    dcp_real.cuMemsetD16Async = fill16;
    dcp_real.cuMemsetD32Async = fill32;
    dcp_real.cuStreamCreate = stream_create;
    dcp_real.cuStreamDestroy_v2 = stream_destroy;
    dcp_real.cuStreamSynchronize = stream_synchronize;
    dcp_real.cuEventSynchronize = event_synchronize;
    dcp_real.cuCtxGetCurrent = context_get;
    dcp_real.cuMemHostAlloc = host_alloc;
    dcp_real.cuMemFreeHost = host_free;
    dcp_real.cuPointerGetAttribute = pointer_attribute;
}
