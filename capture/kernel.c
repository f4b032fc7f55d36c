/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "capture/kernel.h"

#include "intercept/hook.h"
#include "src/arena.h"
#include "src/log.h"
#include "src/table.h"

#include <string.h>

enum { PARAMS_MAX = 4096 };

struct kernel_entry {
    struct dcp_kernel kernel; /* first: the public part */
    UT_hash_handle hh;
};

static struct dcp_arena kernel_arena;
static struct kernel_entry *kernels; /* by handle */
static uint32_t kernel_ids;

/* cudart 12 and newer passes CUkernel handles where a CUfunction is declared;
 * each query answers only for its own kind, and to an index past the last one
 * with INVALID_VALUE. */
static CUresult
ask_kernel(CUfunction handle, size_t index, size_t *offset, size_t *bytes)
{
    return dcp_real.cuKernelGetParamInfo
               ? dcp_real.cuKernelGetParamInfo((CUkernel)handle, index, offset,
                                               bytes)
               : CUDA_ERROR_NOT_SUPPORTED;
}

static CUresult
ask_function(CUfunction handle, size_t index, size_t *offset, size_t *bytes)
{
    return dcp_real.cuFuncGetParamInfo
               ? dcp_real.cuFuncGetParamInfo(handle, index, offset, bytes)
               : CUDA_ERROR_NOT_SUPPORTED;
}

/* True when the handle is one that the driver knows: the end of a parameter
 * list and a bad handle must not be taken for each other. */
static bool
handle_known(CUfunction handle, const char **name)
{
    *name = NULL;
    if (dcp_real.cuKernelGetName &&
        dcp_real.cuKernelGetName(name, (CUkernel)handle) == CUDA_SUCCESS)
        return true;
    return dcp_real.cuFuncGetName &&
           dcp_real.cuFuncGetName(name, handle) == CUDA_SUCCESS;
}

/* The parameters, in order, as far as `ask` answers. The error that ended the
 * list. */
static CUresult
params_read(CUresult (*ask)(CUfunction, size_t, size_t *, size_t *),
            CUfunction handle, struct dcp_kernel_param *found, uint32_t *count)
{
    size_t offset, bytes;
    CUresult result;

    for (*count = 0; *count < PARAMS_MAX; ++*count) {
        result = ask(handle, *count, &offset, &bytes);
        if (result != CUDA_SUCCESS)
            return result;
        found[*count].offset = (uint32_t)offset;
        found[*count].bytes = (uint32_t)bytes;
    }
    return CUDA_ERROR_NOT_SUPPORTED;
}

/* Half a list is worse than none: a query that fails in the middle must not be
 * taken for the list's end, nor one that both kinds of handle are strange to
 * for an empty list. */
static void
kernel_read_layout(struct dcp_kernel *kernel)
{
    static struct dcp_kernel_param found[PARAMS_MAX];
    uint32_t count, end = 0;
    CUresult result = params_read(ask_kernel, kernel->handle, found, &count);

    if (count == 0) {
        bool ended = result == CUDA_ERROR_INVALID_VALUE;

        result = params_read(ask_function, kernel->handle, found, &count);
        if (ended && count == 0 && result == CUDA_ERROR_INVALID_HANDLE)
            result = CUDA_ERROR_INVALID_VALUE;
    }
    if (result != CUDA_ERROR_INVALID_VALUE) {
        dcp_info("the parameters of kernel %s are unknown (error %d)",
                 kernel->name, (int)result);
        return;
    }
    for (uint32_t i = 0; i < count; i++)
        if (found[i].offset + found[i].bytes > end)
            end = found[i].offset + found[i].bytes;
    struct dcp_kernel_param *params =
        dcp_arena_copy(&kernel_arena, found, count * sizeof *found);
    if (!params)
        return;
    kernel->params = params;
    kernel->param_count = count;
    kernel->bytes = end;
    kernel->known = true;
}

const struct dcp_kernel *
dcp_kernel_get(CUfunction handle)
{
    struct kernel_entry *entry;
    const char *name;

    HASH_FIND_PTR(kernels, &handle, entry);
    if (entry)
        return &entry->kernel;
    entry = dcp_arena_alloc(&kernel_arena, sizeof *entry);
    if (!entry)
        return NULL;
    entry->kernel.handle = handle;
    entry->kernel.id = ++kernel_ids;
    entry->kernel.name = "?";
    if (handle_known(handle, &name)) {
        char *copy = name ? dcp_arena_strdup(&kernel_arena, name) : NULL;
        if (copy)
            entry->kernel.name = copy;
        kernel_read_layout(&entry->kernel);
    }
    dcp_table_oom = NULL;
    HASH_ADD_PTR(kernels, kernel.handle, entry);
    return dcp_table_oom ? NULL : &entry->kernel;
}

void
dcp_kernel_forget(void)
{
    /* The entries stay in the arena: recorded calls still point at them. */
    HASH_CLEAR(hh, kernels);
}
