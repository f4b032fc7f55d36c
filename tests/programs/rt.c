/* SPDX-License-Identifier: Apache-2.0 */
/* Options, start and end of a test program. */
#include "tests/programs/rt.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

CUdevice rt_device;
CUcontext rt_context;
_Thread_local CUstream rt_stream;

#ifdef RT_DIRECT
static const char *door = "direct";
#else
static const char *door = "dlsym";
#endif
static const char *launch = "params", *stream_kind = "created", *image = "";
static const char *alloc = "async", *sync_mode = "item";
static int arena_mib = 64, keep;

static const struct rt_option common[] = {
    {"door", RT_TEXT, &door, "dlsym, default, getproc, getproc1, cudart"},
    {"launch", RT_TEXT, &launch, "params, extra, ex, kernel, kernelex"},
    {"stream", RT_TEXT, &stream_kind,
     "created, blocking, legacy, ptds, perthread"},
    {"alloc", RT_TEXT, &alloc, "async, sync, pool, own"},
    {"arena", RT_INT, &arena_mib, "MiB for --alloc own"},
    {"sync", RT_TEXT, &sync_mode, "item, stream, event, ctx"},
    {"keep", RT_FLAG, &keep, "leave the context to the end of the process"},
    {"image", RT_TEXT, &image, "the kernels' image"},
    {NULL, RT_FLAG, NULL, NULL},
};

/* ---- options ----------------------------------------------------------- */

static void
print_help(const struct rt_option *option)
{
    for (; option && option->name; option++) {
        printf("  --%-12s %s", option->name, option->help);
        if (option->kind == RT_INT)
            printf(" (%d)", *(int *)option->value);
        if (option->kind == RT_FLOAT)
            printf(" (%g)", (double)*(float *)option->value);
        if (option->kind == RT_TEXT)
            printf(" (%s)", *(const char **)option->value);
        printf("\n");
    }
}

static const struct rt_option *
find_option(const struct rt_option *option, const char *name)
{
    while (option && option->name && strcmp(option->name, name) != 0)
        option++;
    return option && option->name ? option : NULL;
}

static void
set_option(const struct rt_option *option, const char *text)
{
    if (option->kind == RT_FLAG)
        *(int *)option->value = 1;
    else if (option->kind == RT_INT)
        *(int *)option->value = atoi(text);
    else if (option->kind == RT_FLOAT)
        *(float *)option->value = strtof(text, NULL);
    else
        *(const char **)option->value = text;
}

void
rt_options(int argc, char **argv, const struct rt_option *more)
{
    for (int i = 1; i < argc; i++) {
        const char *name = strncmp(argv[i], "--", 2) == 0 ? argv[i] + 2 : "";
        if (strcmp(name, "help") == 0) {
            print_help(common);
            print_help(more);
            exit(0);
        }
        const struct rt_option *option = find_option(more, name);
        if (option == NULL)
            option = find_option(common, name);
        if (option == NULL || (option->kind != RT_FLAG && i + 1 == argc)) {
            fprintf(stderr, "%s: what is %s?\n", argv[0], argv[i]);
            exit(2);
        }
        set_option(option, option->kind == RT_FLAG ? NULL : argv[++i]);
    }
    rt_door_open(door, strcmp(stream_kind, "ptds") == 0);
}

const char *
rt_sync_mode(void)
{
    return sync_mode;
}

/* ---- start and end ----------------------------------------------------- */

static void
stream_open(void)
{
    if (strcmp(stream_kind, "created") == 0)
        rt_stream = rt_stream_new(CU_STREAM_NON_BLOCKING);
    else if (strcmp(stream_kind, "blocking") == 0)
        rt_stream = rt_stream_new(CU_STREAM_DEFAULT);
    else if (strcmp(stream_kind, "perthread") == 0)
        rt_stream = CU_STREAM_PER_THREAD;
}

void
rt_connect(void)
{
    CU(cuInit, 0);
    CU(cuDeviceGet, &rt_device, 0);
    CU(cuDevicePrimaryCtxRetain, &rt_context, rt_device);
    if (!keep)
        rt_own(RT_CONTEXT, rt_context);
    CU(cuCtxSetCurrent, rt_context);
    stream_open();
    rt_launch_open(image, launch);
    rt_memory_open(alloc, arena_mib);
}

void
rt_start(int argc, char **argv, const struct rt_option *more)
{
    rt_options(argc, argv, more);
    rt_connect();
}

void
rt_thread(CUstream stream)
{
    CU(cuCtxSetCurrent, rt_context);
    rt_stream = stream;
}

void
rt_end(int status)
{
    /* one thread ends the program; another one that fails waits for it */
    static pthread_mutex_t ending = PTHREAD_MUTEX_INITIALIZER;
    if (status == 0) {
        CU(cuCtxSynchronize);
        rt_memory_close();
    }
    pthread_mutex_lock(&ending);
    rt_release_all();
    fflush(stdout);
    exit(status);
}

void
rt_check(CUresult result, const char *name)
{
    static _Thread_local bool failing;
    if (result == CUDA_SUCCESS)
        return;
    rt_print("error %s %d\n", name, (int)result);
    if (!failing) {
        failing = true;
        rt_end(3);
    }
}

/* ---- output ------------------------------------------------------------ */

uint64_t
rt_hash(uint64_t hash, const void *bytes, size_t count)
{
    const unsigned char *at = bytes;
    for (size_t i = 0; i < count; i++)
        hash = (hash ^ at[i]) * 0x100000001b3ull;
    return hash;
}

void
rt_print(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    fflush(stdout);
}

double
rt_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}
