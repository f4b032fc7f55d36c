/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels' image, and the shapes of call that launch one:
 *
 *   params    cuModuleGetFunction, cuLaunchKernel with kernelParams
 *   extra     the same with one packed buffer in `extra`
 *   ex        cuLaunchKernelEx with attributes
 *   kernel    cuLibraryGetKernel, its handle in the place of a function
 *   kernelex  the same with cuLaunchKernelEx, as the runtime does */
#include "tests/programs/rt.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char *image;
static bool use_extra, use_ex, use_library;
struct rt_module *rt_kernels;

static const char *const names[K_COUNT] = {
#define K_STRING(name) #name,
    KERNELS(K_STRING)
#undef K_STRING
};

/* The image beside the program: for the simulated driver a shared object. */
static void
find_image(char *path, size_t room)
{
    char device[128] = "";
    CU(cuDeviceGetName, device, sizeof device, rt_device);
    bool simulated = strstr(device, "imulat") != NULL;
    ssize_t length = readlink("/proc/self/exe", path, room - 1);
    path[length > 0 ? length : 0] = '\0';
    char *slash = strrchr(path, '/');
    char *name = slash ? slash + 1 : path;
    snprintf(name, room - (size_t)(name - path), "kernels.%s",
             simulated ? "so" : "ptx");
}

static char *
read_image(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        fprintf(stderr, "cannot read %s: %m\n", path);
        rt_end(2);
    }
    fseek(file, 0, SEEK_END);
    size_t bytes = (size_t)ftell(file);
    rewind(file);
    char *text = calloc(bytes + 1, 1);
    if (text == NULL || fread(text, 1, bytes, file) != bytes)
        abort();
    fclose(file);
    return text;
}

void
rt_launch_open(const char *path, const char *shape)
{
    char found[4096];
    use_extra = strcmp(shape, "extra") == 0;
    use_library = strncmp(shape, "kernel", 6) == 0;
    use_ex = strcmp(shape, "ex") == 0 || strcmp(shape, "kernelex") == 0;
    if (path == NULL || *path == '\0') {
        find_image(found, sizeof found);
        path = found;
    }
    if (image == NULL)
        image = read_image(path);
    free(rt_kernels); /* of a context that is gone */
    rt_kernels = rt_module_load();
}

struct rt_module *
rt_module_load(void)
{
    struct rt_module *module = calloc(1, sizeof *module);
    if (module == NULL)
        abort();
    if (use_library) {
        CU(cuLibraryLoadData, &module->library, image, NULL, NULL, 0, NULL,
           NULL, 0);
        rt_own(RT_LIBRARY, module->library);
    } else {
        CU(cuModuleLoadData, &module->module, image);
        rt_own(RT_MODULE, module->module);
    }
    for (int i = 0; i < K_COUNT; i++) {
        if (use_library)
            CU(cuLibraryGetKernel, (CUkernel *)&module->function[i],
               module->library, names[i]);
        else
            CU(cuModuleGetFunction, &module->function[i], module->module,
               names[i]);
    }
    return module;
}

void
rt_module_free(struct rt_module *module)
{
    if (module->library) {
        CU(cuLibraryUnload, module->library);
        rt_disown(RT_LIBRARY, module->library);
    } else {
        CU(cuModuleUnload, module->module);
        rt_disown(RT_MODULE, module->module);
    }
    free(module);
}

CUdeviceptr
rt_global(const char *name, size_t *bytes)
{
    CUdeviceptr at = 0;
    if (rt_kernels->library)
        CU(cuLibraryGetGlobal, &at, bytes, rt_kernels->library, name);
    else
        CU(cuModuleGetGlobal, &at, bytes, rt_kernels->module, name);
    return at;
}

static CUresult
launch_ex(CUfunction function, struct rt_size size, void **params)
{
    CUlaunchAttribute attribute;
    memset(&attribute, 0, sizeof attribute);
    attribute.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
    attribute.value.cooperative = 0;
    CUlaunchConfig config;
    memset(&config, 0, sizeof config);
    config.gridDimX = size.grid;
    config.blockDimX = size.block;
    config.gridDimY = config.gridDimZ = 1;
    config.blockDimY = config.blockDimZ = 1;
    config.sharedMemBytes = size.shared;
    config.hStream = rt_stream;
    config.attrs = &attribute;
    config.numAttrs = 1;
    return cu.cuLaunchKernelEx(&config, function, params, NULL);
}

/* The gaps between arguments stay as they are: nobody reads them. */
static CUresult
launch_packed(CUfunction function, struct rt_size size,
              const struct rt_arg *args, unsigned count)
{
    char packed[4096];
    size_t bytes = 0;
    for (unsigned i = 0; i < count; i++) {
        bytes = (bytes + args[i].align - 1) / args[i].align * args[i].align;
        memcpy(packed + bytes, args[i].at, args[i].bytes);
        bytes += args[i].bytes;
    }
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, packed,
                     CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes, CU_LAUNCH_PARAM_END};
    return cu.cuLaunchKernel(function, size.grid, 1, 1, size.block, 1, 1,
                             size.shared, rt_stream, NULL, extra);
}

CUresult
rt_try_launch(enum rt_kernel kernel, struct rt_size size,
              const struct rt_arg *args, unsigned count)
{
    CUfunction function = rt_kernels->function[kernel];
    if (use_extra && count > 0)
        return launch_packed(function, size, args, count);
    void *params[16];
    for (unsigned i = 0; i < count; i++)
        params[i] = (void *)(uintptr_t)args[i].at;
    if (use_ex)
        return launch_ex(function, size, count ? params : NULL);
    return cu.cuLaunchKernel(function, size.grid, 1, 1, size.block, 1, 1,
                             size.shared, rt_stream, count ? params : NULL,
                             NULL);
}

void
rt_launch(enum rt_kernel kernel, struct rt_size size,
          const struct rt_arg *args, unsigned count)
{
    rt_check(rt_try_launch(kernel, size, args, count),
             use_ex ? "cuLaunchKernelEx" : "cuLaunchKernel");
}
