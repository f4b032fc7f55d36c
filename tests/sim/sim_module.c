/* SPDX-License-Identifier: Apache-2.0 */
/* Modules (of a context) and libraries (of none), and the handles they give:
 * CUfunction and CUkernel. */
#include "sim_image.h"

#include <stdlib.h>
#include <string.h>

struct sim_module {
    struct sim_object object;
    struct sim_ctx *ctx;
    struct sim_image *image;
    struct sim_library *library; /* whose image it shows; NULL: its own */
    struct sim_func *funcs;
};

struct sim_library {
    struct sim_object object;
    struct sim_image *image;
    struct sim_func *kernels;
};

static void
func_fill(struct sim_func *func, const struct dcpsim_kernel *kernel,
          struct sim_image *image)
{
    func->name = kernel->name;
    func->run = kernel->run;
    func->param_count = kernel->param_count;
    func->params = kernel->params;
    func->shared = kernel->shared_bytes;
    func->max_dynamic = 49152 - (int)kernel->shared_bytes;
    func->carveout = -1;
    func->image = image;
}

static struct sim_func *
list_find(struct sim_func *list, const char *name)
{
    for (struct sim_func *func = list; func; func = func->next)
        if (strcmp(func->name, name) == 0)
            return func;
    return NULL;
}

static struct sim_func *
module_func(struct sim_module *module, const struct dcpsim_kernel *kernel)
{
    struct sim_func *func = list_find(module->funcs, kernel->name);
    if (func)
        return func;
    func = sim_object_new(SIM_FUNC, sizeof *func);
    func_fill(func, kernel, module->image);
    func->ctx = module->ctx;
    func->module = module;
    func->next = module->funcs;
    module->funcs = func;
    return func;
}

static struct sim_func *
library_kernel(struct sim_library *library, const struct dcpsim_kernel *kernel)
{
    struct sim_func *func = list_find(library->kernels, kernel->name);
    if (func)
        return func;
    func = sim_object_new(SIM_KERNEL, sizeof *func);
    func_fill(func, kernel, library->image);
    func->library = library;
    func->next = library->kernels;
    library->kernels = func;
    return func;
}

/* The module that shows a library in the current context. */
static struct sim_module *found;
static const struct sim_library *wanted;

static void
visit_module(void *object)
{
    struct sim_module *module = object;
    if (module->library == wanted && module->ctx == sim_ctx_current())
        found = module;
}

static struct sim_module *
library_module(struct sim_library *library)
{
    found = NULL;
    wanted = library;
    sim_object_each(SIM_MODULE, visit_module);
    if (found)
        return found;
    struct sim_module *module = sim_object_new(SIM_MODULE, sizeof *module);
    module->ctx = sim_ctx_current();
    module->image = library->image;
    module->library = library;
    return module;
}

static struct sim_func *
kernel_func(struct sim_func *kernel)
{
    if (kernel->twin && kernel->twin->ctx == sim_ctx_current())
        return kernel->twin;
    struct sim_module *module = library_module(kernel->library);
    const struct dcpsim_kernel *code =
        sim_image_find(kernel->image, kernel->name);
    struct sim_func *func = module_func(module, code);
    func->max_dynamic = kernel->max_dynamic;
    func->carveout = kernel->carveout;
    func->twin = kernel;
    kernel->twin = func;
    return func;
}

struct sim_func *
sim_func_get(const void *handle)
{
    switch (sim_object_kind(handle)) {
    case SIM_FUNC:
        return (struct sim_func *)(uintptr_t)handle;
    case SIM_KERNEL:
        return kernel_func((struct sim_func *)(uintptr_t)handle);
    default:
        return NULL;
    }
}

static void
module_free(struct sim_module *module)
{
    for (struct sim_func *func = module->funcs, *next; func; func = next) {
        next = func->next;
        if (func->twin)
            func->twin->twin = NULL;
        sim_object_free(func);
    }
    if (module->library == NULL)
        sim_image_free(module->image);
    sim_object_free(module);
}

static struct sim_ctx *leaving;

static void
visit_leaving(void *object)
{
    struct sim_module *module = object;
    if (module->ctx == leaving)
        module_free(module);
}

void
sim_module_forget(struct sim_ctx *ctx)
{
    leaving = ctx;
    sim_object_each(SIM_MODULE, visit_leaving);
}

bool
sim_module_borrowed(const void *object)
{
    const struct sim_module *module = object;
    return module->library != NULL;
}

static CUresult
module_add(CUmodule *out, struct sim_image *image)
{
    struct sim_module *module = sim_object_new(SIM_MODULE, sizeof *module);
    module->ctx = sim_ctx_current();
    module->image = image;
    *out = (CUmodule)module;
    return CUDA_SUCCESS;
}

static CUresult
module_load(CUmodule *out, const void *image_data)
{
    struct sim_image *image;
    if (out == NULL || image_data == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = sim_image_load(image_data, &image);
    return result == CUDA_SUCCESS ? module_add(out, image) : result;
}

CUresult
cuModuleLoad(CUmodule *out, const char *path)
{
    SIM_API(SIM_CURRENT);
    struct sim_image *image;
    if (out == NULL || path == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = sim_image_load_file(path, &image);
    return result == CUDA_SUCCESS ? module_add(out, image) : result;
}

CUresult
cuModuleLoadData(CUmodule *out, const void *image)
{
    SIM_API(SIM_CURRENT);
    return module_load(out, image);
}

CUresult
cuModuleLoadDataEx(CUmodule *out, const void *image, unsigned int count,
                   CUjit_option *options, void **values)
{
    SIM_API(SIM_CURRENT);
    if (count > 0 && (options == NULL || values == NULL))
        return CUDA_ERROR_INVALID_VALUE;
    return module_load(out, image);
}

CUresult
cuModuleLoadFatBinary(CUmodule *out, const void *image)
{
    SIM_API(SIM_CURRENT);
    return module_load(out, image);
}

CUresult
cuModuleUnload(CUmodule handle)
{
    SIM_API(SIM_CURRENT);
    struct sim_module *module = sim_object_get(handle, SIM_MODULE);
    if (module == NULL || module->library != NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    sim_ctx_wait(module->ctx);
    module_free(module);
    return CUDA_SUCCESS;
}

CUresult
cuModuleGetLoadingMode(CUmoduleLoadingMode *mode)
{
    SIM_API(SIM_INIT);
    if (mode == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *mode = CU_MODULE_LAZY_LOADING;
    return CUDA_SUCCESS;
}

CUresult
cuModuleGetFunction(CUfunction *out, CUmodule handle, const char *name)
{
    SIM_API(SIM_CURRENT);
    struct sim_module *module = sim_object_get(handle, SIM_MODULE);
    if (out == NULL || name == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (module == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    const struct dcpsim_kernel *kernel = sim_image_find(module->image, name);
    if (kernel == NULL)
        return CUDA_ERROR_NOT_FOUND;
    *out = (CUfunction)module_func(module, kernel);
    return CUDA_SUCCESS;
}

CUresult
cuModuleGetFunctionCount(unsigned int *count, CUmodule handle)
{
    SIM_API(SIM_CURRENT);
    const struct sim_module *module = sim_object_get(handle, SIM_MODULE);
    if (count == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (module == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    *count = module->image->count;
    return CUDA_SUCCESS;
}

CUresult
cuModuleEnumerateFunctions(CUfunction *out, unsigned int count,
                           CUmodule handle)
{
    SIM_API(SIM_CURRENT);
    struct sim_module *module = sim_object_get(handle, SIM_MODULE);
    if (module == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    if (out == NULL || count == 0)
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < count && i < module->image->count; i++)
        out[i] = (CUfunction)module_func(module, &module->image->kernels[i]);
    return CUDA_SUCCESS;
}

CUresult
cuModuleGetGlobal_v2(CUdeviceptr *at, size_t *bytes, CUmodule handle,
                     const char *name)
{
    SIM_API(SIM_CURRENT);
    struct sim_module *module = sim_object_get(handle, SIM_MODULE);
    if (module == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    return sim_image_global(module->image, name, at, bytes);
}

static CUresult
library_add(CUlibrary *out, struct sim_image *image)
{
    struct sim_library *library = sim_object_new(SIM_LIBRARY, sizeof *library);
    library->image = image;
    *out = (CUlibrary)library;
    return CUDA_SUCCESS;
}

CUresult
cuLibraryLoadData(CUlibrary *out, const void *code, CUjit_option *jit,
                  void **jit_values, unsigned int jit_count,
                  CUlibraryOption *options, void **values, unsigned int count)
{
    SIM_API(SIM_INIT);
    (void)jit, (void)jit_values, (void)jit_count, (void)options, (void)values;
    (void)count;
    struct sim_image *image;
    if (out == NULL || code == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = sim_image_load(code, &image);
    return result == CUDA_SUCCESS ? library_add(out, image) : result;
}

CUresult
cuLibraryLoadFromFile(CUlibrary *out, const char *path, CUjit_option *jit,
                      void **jit_values, unsigned int jit_count,
                      CUlibraryOption *options, void **values,
                      unsigned int count)
{
    SIM_API(SIM_INIT);
    (void)jit, (void)jit_values, (void)jit_count, (void)options, (void)values;
    (void)count;
    struct sim_image *image;
    if (out == NULL || path == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = sim_image_load_file(path, &image);
    return result == CUDA_SUCCESS ? library_add(out, image) : result;
}

static const struct sim_library *unloading;

static void
visit_unloading(void *object)
{
    struct sim_module *module = object;
    if (module->library == unloading)
        module_free(module);
}

CUresult
cuLibraryUnload(CUlibrary handle)
{
    SIM_API(SIM_INIT);
    struct sim_library *library = sim_object_get(handle, SIM_LIBRARY);
    if (library == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    if (sim_ctx_current())
        sim_ctx_wait(sim_ctx_current());
    unloading = library;
    sim_object_each(SIM_MODULE, visit_unloading);
    for (struct sim_func *k = library->kernels, *next; k; k = next) {
        next = k->next;
        sim_object_free(k);
    }
    sim_image_free(library->image);
    sim_object_free(library);
    return CUDA_SUCCESS;
}

CUresult
cuLibraryGetKernel(CUkernel *out, CUlibrary handle, const char *name)
{
    SIM_API(SIM_INIT);
    struct sim_library *library = sim_object_get(handle, SIM_LIBRARY);
    if (out == NULL || name == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (library == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    const struct dcpsim_kernel *kernel = sim_image_find(library->image, name);
    if (kernel == NULL)
        return CUDA_ERROR_NOT_FOUND;
    *out = (CUkernel)library_kernel(library, kernel);
    return CUDA_SUCCESS;
}

CUresult
cuLibraryGetKernelCount(unsigned int *count, CUlibrary handle)
{
    SIM_API(SIM_INIT);
    const struct sim_library *library = sim_object_get(handle, SIM_LIBRARY);
    if (count == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (library == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    *count = library->image->count;
    return CUDA_SUCCESS;
}

CUresult
cuLibraryEnumerateKernels(CUkernel *out, unsigned int count, CUlibrary handle)
{
    SIM_API(SIM_INIT);
    struct sim_library *library = sim_object_get(handle, SIM_LIBRARY);
    if (library == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    if (out == NULL || count == 0)
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < count && i < library->image->count; i++)
        out[i] = (CUkernel)library_kernel(library,
                                          &library->image->kernels[i]);
    return CUDA_SUCCESS;
}

CUresult
cuLibraryGetModule(CUmodule *out, CUlibrary handle)
{
    SIM_API(SIM_CURRENT);
    struct sim_library *library = sim_object_get(handle, SIM_LIBRARY);
    if (out == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (library == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    *out = (CUmodule)library_module(library);
    return CUDA_SUCCESS;
}

CUresult
cuLibraryGetGlobal(CUdeviceptr *at, size_t *bytes, CUlibrary handle,
                   const char *name)
{
    SIM_API(SIM_CURRENT);
    struct sim_library *library = sim_object_get(handle, SIM_LIBRARY);
    if (library == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    return sim_image_global(library->image, name, at, bytes);
}

CUresult
cuLibraryGetManaged(CUdeviceptr *at, size_t *bytes, CUlibrary handle,
                    const char *name)
{
    SIM_API(SIM_INIT);
    (void)at, (void)bytes;
    if (sim_object_get(handle, SIM_LIBRARY) == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    return name ? CUDA_ERROR_NOT_FOUND : CUDA_ERROR_INVALID_VALUE;
}

CUresult
cuLibraryGetUnifiedFunction(void **out, CUlibrary handle, const char *name)
{
    SIM_API(SIM_INIT);
    (void)out;
    if (sim_object_get(handle, SIM_LIBRARY) == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    return name ? CUDA_ERROR_NOT_FOUND : CUDA_ERROR_INVALID_VALUE;
}

CUresult
cuKernelGetFunction(CUfunction *out, CUkernel handle)
{
    SIM_API(SIM_CURRENT);
    struct sim_func *kernel = sim_object_get(handle, SIM_KERNEL);
    if (out == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (kernel == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    *out = (CUfunction)kernel_func(kernel);
    return CUDA_SUCCESS;
}

CUresult
cuKernelGetLibrary(CUlibrary *out, CUkernel handle)
{
    SIM_API(SIM_INIT);
    struct sim_func *kernel = sim_object_get(handle, SIM_KERNEL);
    if (out == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (kernel == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    *out = (CUlibrary)kernel->library;
    return CUDA_SUCCESS;
}

CUresult
cuFuncGetModule(CUmodule *out, CUfunction handle)
{
    SIM_API(SIM_INIT);
    struct sim_func *func = sim_object_get(handle, SIM_FUNC);
    if (out == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (func == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    *out = (CUmodule)func->module;
    return CUDA_SUCCESS;
}
