/* SPDX-License-Identifier: Apache-2.0 */
/* The ways to libcuda that programs take. */
#include "tests/programs/rt.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STRING(x) STRING_(x)
#define STRING_(x) #x

struct row {
    const char *name;   /* as in the manual */
    const char *symbol; /* as exported */
    char form;
    size_t offset;
};

static const struct row rows_of_driver[] = {
#define FN(fn, form) {#fn, STRING(fn), form, offsetof(struct rt_driver, fn)},
#include "tests/programs/driver.def"
#undef FN
};

#define ROW_COUNT_ (sizeof rows_of_driver / sizeof rows_of_driver[0])

struct rt_driver cu;

typedef CUresult ask_v1(const char *, void **, int, cuuint64_t);
typedef CUresult ask_v2(const char *, void **, int, cuuint64_t,
                        CUdriverProcAddressQueryResult *);

static void
missing(const char *name)
{
    printf("error door %s\n", name);
    exit(3);
}

static void
set(const struct row *row, void *address)
{
    if (address == NULL)
        missing(row->name);
    memcpy((char *)&cu + row->offset, &address, sizeof address);
}

static void
open_by_name(void *handle, bool ptds)
{
    for (size_t i = 0; i < ROW_COUNT_; i++) {
        const struct row *row = &rows_of_driver[i];
        char symbol[96];
        snprintf(symbol, sizeof symbol, "%s%s", row->symbol,
                 !ptds || !row->form  ? ""
                 : row->form == 'z' ? "_ptsz"
                                    : "_ptds");
        set(row, dlsym(handle, symbol));
    }
}

static cuuint64_t
flags_for(bool ptds)
{
    return ptds ? CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM
                : CU_GET_PROC_ADDRESS_LEGACY_STREAM;
}

/* From 13.0 on the name stands for a function that takes a context, whatever
 * cuda.h declares. */
static int
version_for(const char *name)
{
    return strcmp(name, "cuCtxSynchronize") == 0 ? 12000 : CUDA_VERSION;
}

static void
open_by_v1(ask_v1 *ask, bool ptds)
{
    for (size_t i = 0; i < ROW_COUNT_; i++) {
        void *address = NULL;
        const char *name = rows_of_driver[i].name;
        if (ask(name, &address, version_for(name), flags_for(ptds)) !=
            CUDA_SUCCESS)
            missing(name);
        set(&rows_of_driver[i], address);
    }
}

static void
open_by_v2(ask_v2 *ask, bool ptds)
{
    for (size_t i = 0; i < ROW_COUNT_; i++) {
        void *address = NULL;
        CUdriverProcAddressQueryResult status;
        const char *name = rows_of_driver[i].name;
        if (ask(name, &address, version_for(name), flags_for(ptds), &status) !=
                CUDA_SUCCESS ||
            status != CU_GET_PROC_ADDRESS_SUCCESS)
            missing(name);
        set(&rows_of_driver[i], address);
    }
}

static void *
library(int flags)
{
    void *handle = dlopen("libcuda.so.1", flags);
    if (handle == NULL)
        missing("libcuda.so.1");
    return handle;
}

static void *
named(void *handle, const char *name)
{
    void *address = dlsym(handle, name);
    if (address == NULL)
        missing(name);
    return address;
}

/* The runtime asks cuGetProcAddress for itself before it asks for the rest. */
static void
open_as_cudart(bool ptds)
{
    ask_v2 *ask = (ask_v2 *)named(library(RTLD_NOW), "cuGetProcAddress_v2");
    void *again = NULL;
    CUdriverProcAddressQueryResult status;
    if (ask("cuGetProcAddress", &again, 12000, CU_GET_PROC_ADDRESS_DEFAULT,
            &status) != CUDA_SUCCESS || again == NULL)
        missing("cuGetProcAddress");
    open_by_v2((ask_v2 *)again, ptds);
}

#ifdef RT_DIRECT
static void
open_directly(void)
{
#define FN(fn, form) cu.fn = fn;
#include "tests/programs/driver.def"
#undef FN
}
#endif

void
rt_door_open(const char *door, bool ptds)
{
#ifdef RT_DIRECT
    if (strcmp(door, "direct") == 0) {
        open_directly();
        return;
    }
#endif
    if (strcmp(door, "dlsym") == 0)
        open_by_name(library(RTLD_NOW), ptds);
    else if (strcmp(door, "default") == 0)
        open_by_name((library(RTLD_NOW | RTLD_GLOBAL), RTLD_DEFAULT), ptds);
    else if (strcmp(door, "getproc") == 0)
        open_by_v2((ask_v2 *)named(library(RTLD_NOW), "cuGetProcAddress_v2"),
                   ptds);
    else if (strcmp(door, "getproc1") == 0)
        open_by_v1((ask_v1 *)named(library(RTLD_NOW), "cuGetProcAddress"),
                   ptds);
    else if (strcmp(door, "cudart") == 0)
        open_as_cudart(ptds);
    else
        missing(door);
}
