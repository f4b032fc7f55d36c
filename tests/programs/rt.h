/* SPDX-License-Identifier: Apache-2.0 */
/* What the test programs share: the driver's functions, found in one of several
 * ways, a context, a stream and the kernels, launched in one of several ways.
 * A call that fails ends the program: it prints "error <function> <code>",
 * gives everything back and exits with 3. */
#ifndef DCP_PROGRAMS_RT_H
#define DCP_PROGRAMS_RT_H

#include "tests/programs/kernels.h"

#include <cuda.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- the driver (rt_door.c) -------------------------------------------- */

struct rt_driver {
#define FN(fn, form) __typeof__(fn) *fn;
#include "tests/programs/driver.def"
#undef FN
};

extern struct rt_driver cu;

/* Calls a driver function and ends the program when it fails. */
#define CU(fn, ...) rt_check(cu.fn(__VA_ARGS__), #fn)

void rt_check(CUresult result, const char *name);

/* Fills cu by the named way: direct (only in programs linked to libcuda),
 * dlsym, default (dlsym with RTLD_DEFAULT), getproc (cuGetProcAddress_v2 found
 * by dlsym), getproc1 (its first version, with four arguments), cudart
 * (cuGetProcAddress asked for itself, as the runtime does). With `ptds` the
 * functions are the per-thread default stream's. */
void rt_door_open(const char *door, bool ptds);

/* ---- options, start and end (rt.c) ------------------------------------- */

enum rt_option_kind { RT_FLAG, RT_INT, RT_FLOAT, RT_TEXT };

struct rt_option {
    const char *name; /* without the dashes; NULL ends a list */
    enum rt_option_kind kind;
    void *value; /* int *, int *, float *, const char ** */
    const char *help;
};

/* Reads the options (those of every program and `more`, which may be NULL),
 * opens the driver, makes a context and a stream, loads the kernels. */
void rt_start(int argc, char **argv, const struct rt_option *more);

/* As rt_start, but only reads the options and opens the driver. */
void rt_options(int argc, char **argv, const struct rt_option *more);
void rt_connect(void); /* the rest of rt_start */

/* Gives everything back and ends the program. */
void rt_end(int status) __attribute__((noreturn));

extern CUdevice rt_device;
extern CUcontext rt_context;
/* What this thread launches into; other threads start with rt_thread. */
extern _Thread_local CUstream rt_stream;
void rt_thread(CUstream stream); /* makes the context current, too */
const char *rt_sync_mode(void);  /* --sync */

/* ---- things that must be given back (rt_own.c) ------------------------- */

enum rt_kind {
    RT_MEMORY,       /* cuMemFree */
    RT_ASYNC_MEMORY, /* cuMemFreeAsync */
    RT_HOST_MEMORY,
    RT_STREAM,
    RT_EVENT,
    RT_POOL,
    RT_MODULE,
    RT_LIBRARY,
    RT_GRAPH,
    RT_EXEC,
    RT_CONTEXT,
};

void rt_own(enum rt_kind kind, const void *handle);
void rt_disown(enum rt_kind kind, const void *handle);
void rt_release_all(void); /* latest first; failures are not looked at */
extern bool rt_capturing; /* rt_stream is: the capture must be ended first */

CUstream rt_stream_new(unsigned flags);
void rt_stream_free(CUstream stream);
CUevent rt_event_new(unsigned flags);
void rt_event_free(CUevent event);
void *rt_host_new(size_t bytes, unsigned flags);
void rt_host_free(void *at);

/* ---- device memory (rt_memory.c) --------------------------------------- */

/* Memory by the way that --alloc names: async, sync, pool, own. In stream
 * order of rt_stream. */
void *rt_alloc(size_t bytes);
void rt_free(void *at);
void rt_memory_open(const char *mode, int arena_mib);
void rt_memory_close(void);

static inline CUdeviceptr
rt_ptr(const void *at)
{
    return (CUdeviceptr)(uintptr_t)at;
}

/* Copies in stream order of rt_stream; the source may be overwritten when
 * rt_upload returns, rt_read has waited. */
void rt_upload(void *device, const void *host, size_t bytes);
void rt_read(void *host, const void *device, size_t bytes);

/* ---- kernels (rt_launch.c) --------------------------------------------- */

enum rt_kernel {
#define K_NAME(name) K_##name,
    KERNELS(K_NAME)
#undef K_NAME
    K_COUNT
};

struct rt_module {
    CUmodule module;
    CUlibrary library;
    CUfunction function[K_COUNT];
};

extern struct rt_module *rt_kernels; /* what the launchers below use */

void rt_launch_open(const char *image, const char *shape);
struct rt_module *rt_module_load(void);
void rt_module_free(struct rt_module *module);
CUdeviceptr rt_global(const char *name, size_t *bytes);

struct rt_size {
    unsigned grid, block, shared;
};

static inline struct rt_size
items(size_t n)
{
    return (struct rt_size){(unsigned)((n + 127) / 128), 128, 0};
}

static inline struct rt_size
rows(size_t n)
{
    return (struct rt_size){(unsigned)n, 32, 0};
}

struct rt_arg {
    const void *at;
    unsigned short bytes, align;
};

CUresult rt_try_launch(enum rt_kernel kernel, struct rt_size size,
                       const struct rt_arg *args, unsigned count);
void rt_launch(enum rt_kernel kernel, struct rt_size size,
               const struct rt_arg *args, unsigned count);

/* k_<kernel>(size, the kernel's parameters): device pointers are typed. */
#define LAUNCHER(name) LAUNCHER_(name, ARGS_##name)
#define LAUNCHER_(name, ...) LAUNCHER__(name, __VA_ARGS__)
#define LAUNCHER__(name, ...)                                                  \
    static inline void k_##name(                                               \
        struct rt_size over MAP(AS_LAUNCHED, NOTHING, name, ##__VA_ARGS__))    \
    {                                                                          \
        const struct rt_arg args[] = {                                         \
            MAP(AS_ARG, NOTHING, name, ##__VA_ARGS__){NULL, 0, 0}};            \
        rt_launch(K_##name, over, args, sizeof args / sizeof args[0] - 1);     \
    }
#define AS_LAUNCHED(kernel, pair) , DECLARE pair
#define AS_ARG(kernel, pair)                                                   \
    {&NAME_OF pair, sizeof(TYPE_OF pair), _Alignof(TYPE_OF pair)},
KERNELS(LAUNCHER)

/* ---- output ------------------------------------------------------------ */

uint64_t rt_hash(uint64_t hash, const void *bytes, size_t count);
#define RT_HASH_START 0xcbf29ce484222325ull

/* One line on standard output, at once. */
void rt_print(const char *format, ...) __attribute__((format(printf, 1, 2)));
double rt_seconds(void);

#endif
