/* SPDX-License-Identifier: Apache-2.0 */
/* Checks: before cuInit, looking entries up, contexts, modules. */
#include "conformance.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

void
check_before_init(void)
{
    int count = 0, version = 0;
    CUdeviceptr at = 0;
    const char *text = NULL;
    void *address = NULL;
    CUdriverProcAddressQueryResult status = (CUdriverProcAddressQueryResult)9;
    begin("before_init");
    say("device_count", CU(cuDeviceGetCount)(&count));
    say("mem_alloc", CU(cuMemAlloc_v2)(&at, 256));
    say("driver_version", CU(cuDriverGetVersion)(&version));
    say("error_name", CU(cuGetErrorName)(CUDA_ERROR_OUT_OF_MEMORY, &text));
    say_text("error_name", text);
    say("error_string", CU(cuGetErrorString)(CUDA_ERROR_NOT_READY, &text));
    say_text("error_string", text);
    say("error_name_unknown", CU(cuGetErrorName)((CUresult)12345, &text));
    say_text("error_name_unknown", text);
    say("proc_address",
        CU(cuGetProcAddress_v2)("cuInit", &address, 12000, 0, &status));
    say("proc_address_status", status);
    say("init_flags", CU(cuInit)(1));
    say("init", CU(cuInit)(0));
    say("init_again", CU(cuInit)(0));
    say("alloc_without_context", CU(cuMemAlloc_v2)(&at, 256));
    say("synchronize_without_context", CU(cuCtxSynchronize)());
    size_t bytes;
    say("mem_info_without_context", CU(cuMemGetInfo_v2)(&bytes, &bytes));
    CUcontext current = (CUcontext)1;
    say("current_without_context", CU(cuCtxGetCurrent)(&current));
    say("current_is_null", current == NULL);
    say("pop_without_context", CU(cuCtxPopCurrent_v2)(&current));
    CUdevice none;
    say("device_99", CU(cuDeviceGet)(&none, 99));
    say("device_count_null", CU(cuDeviceGetCount)(NULL));
}

/* Which of the exported symbols an address is. */
static const char *
symbol_of(const char *name, const void *address)
{
    static const char *const ends[] = {"", "_v2", "_v3", "_v4", "_ptsz",
                                       "_ptds", "_v2_ptsz", "_v2_ptds",
                                       "_v3_ptsz"};
    static char symbol[96];
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        snprintf(symbol, sizeof symbol, "%s%s", name, ends[i]);
        if (dlsym(library, symbol) == address)
            return symbol;
    }
    return "other";
}

/* One line: from which version on which symbol is given. */
static void
look_up(const char *name, cuuint64_t flags)
{
    static const int versions[] = {2000, 3010, 3020, 4000, 6050, 7000, 8000,
                                   10000, 10010, 10020, 11000, 11010, 11020,
                                   11030, 11040, 11060, 11070, 12000, 12020,
                                   12030, 12040, 12050, 12080, 12090, 13000,
                                   99000};
    char what[96], line[512] = "", last[96] = "";
    for (size_t i = 0; i < sizeof versions / sizeof versions[0]; i++) {
        void *address = NULL;
        char answer[96];
        CUdriverProcAddressQueryResult status =
            (CUdriverProcAddressQueryResult)9;
        CUresult result = CU(cuGetProcAddress_v2)(name, &address, versions[i],
                                                  flags, &status);
        snprintf(answer, sizeof answer, "%s/%d/%d",
                 address ? symbol_of(name, address) : "none", (int)result,
                 (int)status);
        if (strcmp(answer, last) != 0) {
            size_t length = strlen(line);
            snprintf(line + length, sizeof line - length, " %d:%s", versions[i],
                     answer);
        }
        snprintf(last, sizeof last, "%s", answer);
    }
    snprintf(what, sizeof what, "%s(%d)", name, (int)flags);
    say_text(what, line + 1);
}

void
check_lookup(void)
{
    static const char *const names[] = {
        "cuMemAlloc", "cuMemcpyHtoD", "cuMemcpyHtoDAsync", "cuMemsetD8",
        "cuLaunchKernel", "cuLaunchKernelEx", "cuMemAllocAsync",
        "cuGetProcAddress", "cuStreamGetCaptureInfo", "cuStreamBeginCapture",
        "cuGraphAddNode", "cuGraphAddKernelNode", "cuGraphExecUpdate",
        "cuGraphInstantiate", "cuGraphInstantiateWithParams", "cuGraphLaunch",
        "cuCtxCreate", "cuCtxSynchronize", "cuEventElapsedTime",
        "cuMemPrefetchAsync", "cuStreamWaitValue32", "cuStreamSynchronize",
        "cuFuncGetParamInfo", "cuMemcpyBatchAsync", "cuDeviceGetUuid"};
    begin("lookup");
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        for (cuuint64_t flags = 0; flags < 3; flags++)
            look_up(names[i], flags);
    look_up("cuNoSuchThing", 0); /* and names with an ending */
    look_up("cuMemAlloc_v2", 0);
    look_up("cuLaunchKernel_ptsz", 0);
    void *address = (void *)1;
    say("v1", CU(cuGetProcAddress)("cuMemAlloc", &address, 11030, 0));
    say_text("v1", symbol_of("cuMemAlloc", address));
    say("v1_unknown",
        CU(cuGetProcAddress)("cuNoSuchThing", &address, 11030, 0));
    say("v1_too_old", CU(cuGetProcAddress)("cuMemAllocAsync", &address, 11000,
                                           0));
    ask("v2_no_status", CU(cuGetProcAddress_v2)("cuNoSuchThing", &address,
                                                12000, 0, NULL));
    CUdriverProcAddressQueryResult status;
    say("bad_flags",
        CU(cuGetProcAddress_v2)("cuInit", &address, 12000, 64, &status));
    ask("both_flags",
        CU(cuGetProcAddress_v2)("cuInit", &address, 12000, 3, &status));
    const void *table = NULL;
    CUuuid id;
    memset(&id, 0x5a, sizeof id);
    ask("export_table_unknown", CU(cuGetExportTable)(&table, &id));
}

void
check_context(void)
{
    CUcontext current = NULL, popped = NULL;
    CUdevice which = -1;
    unsigned flags = 99, version = 0;
    int active = -1, least = 1, greatest = 1;
    begin("context");
    say("get_current", CU(cuCtxGetCurrent)(&current));
    say("current_is_primary", current == context);
    say("get_device", CU(cuCtxGetDevice)(&which));
    say("device", which);
    say("push", CU(cuCtxPushCurrent_v2)(context));
    say("pop", CU(cuCtxPopCurrent_v2)(&popped));
    say("popped_is_primary", popped == context);
    say("pop_null", CU(cuCtxPopCurrent_v2)(NULL));
    say("get_current_after", CU(cuCtxGetCurrent)(&current));
    say("current_is_null", current == NULL);
    say("set_null", CU(cuCtxSetCurrent)(NULL));
    say("set", CU(cuCtxSetCurrent)(context));
    say("state", CU(cuDevicePrimaryCtxGetState)(device, &flags, &active));
    say("active", active);
    say("api_version", CU(cuCtxGetApiVersion)(context, &version));
    ask("api_version", version);
    say("priority_range", CU(cuCtxGetStreamPriorityRange)(&least, &greatest));
    say("least", least);
    say("greatest", greatest);
    CUcontext made = NULL;
    say("create", CU(cuCtxCreate_v2)(&made, 0, device));
    CU(cuCtxGetCurrent)(&current);
    say("created_is_current", current == made && made != context);
    say("destroy", CU(cuCtxDestroy_v2)(made));
    CU(cuCtxGetCurrent)(&current);
    say("primary_is_back", current == context);
    say("destroy_primary", CU(cuCtxDestroy_v2)(context));
    say("destroy_null", CU(cuCtxDestroy_v2)(NULL));
    int can = -1;
    say("peer_with_itself", CU(cuDeviceCanAccessPeer)(&can, device, device));
    say("can", can);
    int value = -1;
    say("attribute_warp", CU(cuDeviceGetAttribute)(
                              &value, CU_DEVICE_ATTRIBUTE_WARP_SIZE, device));
    say("warp", value);
    say("attribute_0", CU(cuDeviceGetAttribute)(
                           &value, (CUdevice_attribute)0, device));
    ask("attribute_9999", CU(cuDeviceGetAttribute)(
                              &value, (CUdevice_attribute)9999, device));
}

static void
check_library(void)
{
    CUlibrary library = NULL;
    CUkernel fill = NULL, copy = NULL;
    CUfunction func = NULL, again = NULL;
    CUmodule shown = NULL;
    size_t offset = 0, bytes = 0;
    const char *name = NULL;
    int value = 0;
    unsigned count = 0;
    say("library_load", CU(cuLibraryLoadData)(&library, image, NULL, NULL, 0,
                                              NULL, NULL, 0));
    say("get_kernel", CU(cuLibraryGetKernel)(&fill, library, "fill"));
    say("get_kernel_copy", CU(cuLibraryGetKernel)(&copy, library, "copy"));
    say("get_kernel_missing",
        CU(cuLibraryGetKernel)(&copy, library, "nothing"));
    say("kernel_count", CU(cuLibraryGetKernelCount)(&count, library));
    say("kernel_count_positive", count > 2);
    say("kernel_get_function", CU(cuKernelGetFunction)(&func, fill));
    say("kernel_get_function_again", CU(cuKernelGetFunction)(&again, fill));
    say("same_function", func == again);
    say("kernel_param_0", CU(cuKernelGetParamInfo)(fill, 0, &offset, &bytes));
    say("kernel_param_2", CU(cuKernelGetParamInfo)(fill, 2, &offset, &bytes));
    say("offset_2", (long long)offset);
    say("bytes_2", (long long)bytes);
    say("kernel_param_3", CU(cuKernelGetParamInfo)(fill, 3, &offset, &bytes));
    say("func_param_of_function", CU(cuFuncGetParamInfo)(func, 0, &offset,
                                                         &bytes));
    say("func_param_of_kernel", CU(cuFuncGetParamInfo)((CUfunction)fill, 0,
                                                       &offset, &bytes));
    ask("kernel_param_of_function",
        CU(cuKernelGetParamInfo)((CUkernel)func, 0, &offset, &bytes));
    say("kernel_name", CU(cuKernelGetName)(&name, fill));
    say_text("kernel_name", name);
    ask("func_name_of_kernel", CU(cuFuncGetName)(&name, (CUfunction)fill));
    ask("func_attribute_of_kernel",
        CU(cuFuncGetAttribute)(&value, CU_FUNC_ATTRIBUTE_NUM_REGS,
                               (CUfunction)fill));
    ask("func_module_of_kernel", CU(cuFuncGetModule)(&shown, (CUfunction)fill));
    say("library_module", CU(cuLibraryGetModule)(&shown, library));
    CUmodule of_func = NULL;
    say("func_module", CU(cuFuncGetModule)(&of_func, func));
    say("same_module", of_func == shown);
    CUdeviceptr y = 0;
    need("alloc", CU(cuMemAlloc_v2)(&y, 256));
    float one = 1;
    int n = 4;
    void *params[] = {&y, &one, &n};
    say("launch_kernel_handle",
        CU(cuLaunchKernel)((CUfunction)fill, 1, 1, 1, 32, 1, 1, 0, NULL, params,
                           NULL));
    say("value", (long long)read_float(y, 3));
    say("free", CU(cuMemFree_v2)(y));
    say("library_unload", CU(cuLibraryUnload)(library));
}

static void
check_launch(void)
{
    CUdeviceptr y = 0;
    CUfunction fill = kernel("fill");
    float value = 3;
    int n = 64, regs = 0;
    void *params[] = {&y, &value, &n};
    need("alloc", CU(cuMemAlloc_v2)(&y, 1024));
    say("grid_0", CU(cuLaunchKernel)(fill, 0, 1, 1, 32, 1, 1, 0, NULL, params,
                                     NULL));
    say("block_0", CU(cuLaunchKernel)(fill, 1, 1, 1, 0, 1, 1, 0, NULL, params,
                                      NULL));
    say("block_2048", CU(cuLaunchKernel)(fill, 1, 1, 1, 2048, 1, 1, 0, NULL,
                                         params, NULL));
    say("grid_y_65536", CU(cuLaunchKernel)(fill, 1, 65536, 1, 1, 1, 1, 0, NULL,
                                           params, NULL));
    say("shared_65536", CU(cuLaunchKernel)(fill, 1, 1, 1, 32, 1, 1, 65536, NULL,
                                           params, NULL));
    say("null_function", CU(cuLaunchKernel)(NULL, 1, 1, 1, 32, 1, 1, 0, NULL,
                                            params, NULL));
    char packed[16];
    size_t bytes = sizeof packed;
    value = 5;
    memcpy(packed, &y, 8);
    memcpy(packed + 8, &value, 4);
    memcpy(packed + 12, &n, 4);
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, packed,
                     CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes, CU_LAUNCH_PARAM_END};
    say("extra", CU(cuLaunchKernel)(fill, 1, 1, 1, 64, 1, 1, 0, NULL, NULL,
                                    extra));
    say("extra_value", (long long)read_float(y, 63));
    say("both", CU(cuLaunchKernel)(fill, 1, 1, 1, 64, 1, 1, 0, NULL, params,
                                   extra));
    ask("neither", CU(cuLaunchKernel)(fill, 1, 1, 1, 64, 1, 1, 0, NULL, NULL,
                                      NULL));
    bytes = 8;
    ask("extra_short", CU(cuLaunchKernel)(fill, 1, 1, 1, 64, 1, 1, 0, NULL,
                                          NULL, extra));
    say("get_attribute", CU(cuFuncGetAttribute)(
                             &regs, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK,
                             fill));
    say("max_threads", regs);
    say("set_dynamic",
        CU(cuFuncSetAttribute)(
            fill, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 98304));
    say("shared_65536_again", CU(cuLaunchKernel)(fill, 1, 1, 1, 32, 1, 1, 65536,
                                                 NULL, params, NULL));
    say("set_dynamic_1g",
        CU(cuFuncSetAttribute)(
            fill, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 1 << 30));
    say("set_regs",
        CU(cuFuncSetAttribute)(fill, CU_FUNC_ATTRIBUTE_NUM_REGS, 1));
    int blocks = 0;
    say("occupancy", CU(cuOccupancyMaxActiveBlocksPerMultiprocessor)(
                         &blocks, fill, 1024, 0));
    say("occupancy_1024", blocks);
    say("free", CU(cuMemFree_v2)(y));
}

void
check_module(void)
{
    CUmodule other = NULL;
    CUfunction func = NULL;
    CUdeviceptr at = 0;
    size_t bytes = 0, offset = 0;
    begin("module");
    say("load_garbage",
        CU(cuModuleLoadData)(&other, "garbage garbage garbage"));
    say("load_null", CU(cuModuleLoadData)(&other, NULL));
    say("load_missing_file", CU(cuModuleLoad)(&other, "/nonexistent/image"));
    say("function_missing", CU(cuModuleGetFunction)(&func, module, "nothing"));
    say("global", CU(cuModuleGetGlobal_v2)(&at, &bytes, module, "gain_value"));
    say("global_bytes", (long long)bytes);
    float gains[4] = {0, 0, 0, 0};
    say("global_read", CU(cuMemcpyDtoH_v2)(gains, at, sizeof gains));
    say("global_value", (long long)gains[3]);
    say("global_missing", CU(cuModuleGetGlobal_v2)(&at, &bytes, module, "no"));
    say("param_0", CU(cuFuncGetParamInfo)(kernel("tiny"), 0, &offset, &bytes));
    say("param_1", CU(cuFuncGetParamInfo)(kernel("tiny"), 1, &offset, &bytes));
    say("param_1_offset", (long long)offset);
    say("param_1_bytes", (long long)bytes);
    say("param_2", CU(cuFuncGetParamInfo)(kernel("tiny"), 2, &offset, &bytes));
    say("param_of_empty", CU(cuFuncGetParamInfo)(kernel("empty"), 0, &offset,
                                                 &bytes));
    say("param_list", CU(cuFuncGetParamInfo)(kernel("adamw_list"), 1, &offset,
                                             &bytes));
    say("param_list_offset", (long long)offset);
    say("empty_without_params",
        CU(cuLaunchKernel)(kernel("empty"), 1, 1, 1, 1, 1, 1, 0, NULL, NULL,
                           NULL));
    check_launch();
    check_library();
}
