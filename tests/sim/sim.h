/* SPDX-License-Identifier: Apache-2.0 */
/* The simulated driver's own header. One lock (sim_lock) guards every object;
 * an entry point takes it in SIM_API and holds it to its end, except where it
 * waits. The work itself runs on one worker thread without the lock:
 *
 *   entry point -> work (what to do) -> op (when: a node in a graph of
 *   dependencies) -> ready list -> worker
 *
 * While a stream is being captured, the work becomes a graph node instead.
 *
 * What the environment can change:
 *   DCPSIM_DEVICES, DCPSIM_MEM_BYTES   the machine (sim_device.c)
 *   DCPSIM_GRANULARITY                 of mapped memory (sim_vmm.c)
 *   DCPSIM_JITTER, DCPSIM_POISON=byte  to find bad order, unset memory
 *   DCPSIM_FAIL, DCPSIM_FAULT          failing calls and kernels (sim_fail.c)
 *   DCPSIM_COUNT, DCPSIM_LOG           the calls
 *   DCPSIM_LEAKS=1                     what is left at exit
 *   DCPSIM_DEBUG=1                     why an image could not be opened
 *   DCPSIM_ARENA_BYTES                 address space for device memory */
#ifndef DCP_SIM_SIM_H
#define DCP_SIM_SIM_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#include <cudaProfiler.h>

#include "dcpsim.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SIM_MAX_DEVICES 16
#define SIM_COUNT(array) (sizeof(array) / sizeof(array)[0])

/* ---- sim_core.c: objects, threads, the lock ---------------------------- */

enum sim_kind {
    SIM_CTX,
    SIM_STREAM,
    SIM_EVENT,
    SIM_MODULE,
    SIM_LIBRARY,
    SIM_FUNC,
    SIM_KERNEL,
    SIM_POOL,
    SIM_FRAME,
    SIM_GRAPH,
    SIM_NODE,
    SIM_EXEC,
    SIM_USER,
    SIM_KIND_COUNT
};

/* The head of everything a handle names. */
struct sim_object {
    enum sim_kind kind;
    struct sim_object *chain; /* in the table of live handles */
    uint64_t id;              /* counts objects from 1 */
};

struct sim_thread {
    struct sim_ctx *stack[32];
    int depth;
    CUstreamCaptureMode mode;
    bool in_host;             /* runs a host function: no driver calls */
    struct {                  /* the per-thread streams, one a context */
        uint64_t age;         /* the context's, when it was made */
        struct sim_stream *stream;
    } own[8];
    int own_count;
};

extern pthread_mutex_t sim_lock;
extern pthread_cond_t sim_done; /* an op ended while someone waited */
extern _Thread_local struct sim_thread sim_thread;

void *sim_object_new(enum sim_kind kind, size_t bytes);
void sim_object_free(void *object);
/* No longer a valid handle, but other threads may still hold the pointer. */
void sim_object_retire(void *object);
/* The object behind a handle, or NULL when it is none of that kind (any bits
 * may be passed). */
void *sim_object_get(const void *handle, enum sim_kind kind);
/* The kind behind a handle, or -1. */
int sim_object_kind(const void *handle);
void sim_object_each(enum sim_kind kind, void (*visit)(void *));

uint64_t sim_now(void);
uint64_t sim_env(const char *name, uint64_t fallback); /* 1G, 64k, 0x.. */
uint64_t sim_random(void); /* under the lock */

/* ---- sim_fail.c: the head of each entry point -------------------------- */

/* SIM_START: not in a forked child or a host function; SIM_INIT: after cuInit;
 * SIM_CURRENT: with a context that is current and in order. */
enum sim_need { SIM_NONE, SIM_START, SIM_INIT, SIM_CURRENT };

struct sim_site {
    const char *name;
    _Atomic unsigned long calls;
    struct sim_site *next;
    _Atomic int known;
};

CUresult sim_enter(struct sim_site *site, enum sim_need need);
void sim_leave(const int *guard);
/* What the kernel that now runs shall end with (DCPSIM_FAULT). */
CUresult sim_fail_kernel(const char *name);
int sim_rest_enter(const char *name, void **slot);

/* Counts, logs, injects a failure, checks the state of driver and thread, and
 * takes the lock until the end of the enclosing block. */
#define SIM_API(need)                                                          \
    static struct sim_site site_ = {.name = __func__};                         \
    CUresult enter_ = sim_enter(&site_, need);                                 \
    if (enter_ != CUDA_SUCCESS)                                                \
        return enter_;                                                         \
    int guard_ __attribute__((cleanup(sim_leave), unused)) = 0

/* ---- sim_device.c, sim_context.c --------------------------------------- */

struct sim_device {
    int ordinal;         /* as the program counts them */
    int physical;
    size_t total, used;
    struct sim_ctx *primary;
    int primary_refs;
    unsigned primary_flags;
    struct sim_pool *default_pool, *pool;
    size_t graph_used, graph_high;
};

struct sim_ctx {
    struct sim_object object;
    struct sim_device *device;
    bool primary;
    unsigned flags;
    CUresult error;          /* sticky */
    uint64_t age;            /* another number after each reset */
    struct sim_stream *legacy; /* NULL: destroyed, or not yet made */
    struct sim_stream *streams; /* all, the legacy one first */
    uint32_t pending;        /* ops not done */
    size_t limits[CU_LIMIT_MAX];
    CUfunc_cache cache;
};

extern struct sim_device sim_devices[SIM_MAX_DEVICES];
extern int sim_device_count;
extern int sim_ready; /* cuInit has succeeded */

CUresult sim_device_setup(void);
struct sim_device *sim_device_get(CUdevice device);
struct sim_ctx *sim_ctx_current(void);
struct sim_ctx *sim_ctx_get(CUcontext handle); /* NULL: the current one */
CUcontext sim_ctx_handle(struct sim_ctx *ctx);
void sim_ctx_wait(struct sim_ctx *ctx);
struct sim_ctx *sim_ctx_new(struct sim_device *device, unsigned flags);
void sim_ctx_begin(struct sim_ctx *ctx); /* its life, or another one */
void sim_ctx_clear(struct sim_ctx *ctx); /* all that belongs to it goes */

/* ---- sim_range.c: what lies at an address ------------------------------ */

enum sim_place { SIM_DEVICE, SIM_POOLED, SIM_MANAGED, SIM_PINNED,
                 SIM_REGISTERED, SIM_RESERVED, SIM_MAPPED, SIM_GLOBAL,
                 SIM_GRAPHED, SIM_HELD };

struct sim_range {
    uintptr_t base;
    size_t bytes;
    enum sim_place place;
    struct sim_ctx *ctx;
    struct sim_device *device;
    unsigned flags;        /* host: CU_MEMHOSTALLOC_*; mapped: access */
    bool live;             /* false: still held, but freed by the program */
    bool sync_memops;
    uint64_t id;
    size_t held;           /* bytes of the arena behind it */
    struct sim_pool *pool;
    struct sim_block *block;
    struct sim_frame *frame;
    struct sim_range *over; /* mapped: the reservation */
};

int sim_range_add(struct sim_range *range); /* -1: overlaps */
void sim_range_remove(struct sim_range *range);
/* The innermost range that holds `address` (a mapping before the reservation
 * that it lies in); NULL: ordinary host memory. */
struct sim_range *sim_range_find(uintptr_t address);
struct sim_range *sim_range_next(uintptr_t address); /* first with base >= */
/* Frees memory from cuMemAlloc in the order of a stream (sim_memory.c). */
CUresult sim_plain_free(struct sim_range *range, struct sim_stream *stream);
bool sim_range_is_device(const struct sim_range *range);
/* Whether a call may name [at, at + bytes): 0, or CUDA_ERROR_INVALID_VALUE
 * where no block, mapping or reservation lies there or the block ends before.
 * Host memory outside any range passes when `host` is set. */
CUresult sim_range_check(uintptr_t at, size_t bytes, bool host);
/* Whether all of it is backed and accessible to the device. */
bool sim_range_usable(uintptr_t at, size_t bytes, bool write);
/* The same when the work runs, which does not hold the lock: 0, or
 * CUDA_ERROR_ILLEGAL_ADDRESS. */
CUresult sim_range_touch(uintptr_t at, size_t bytes, bool write);
size_t sim_range_count(enum sim_place place);

/* ---- sim_arena.c: address space for device memory ---------------------- */

void *sim_arena_alloc(size_t bytes, size_t align);
void sim_arena_free(void *base, size_t bytes);
bool sim_arena_owns(uintptr_t address);
size_t sim_page_round(size_t bytes);

/* ---- sim_work.c: what an op does --------------------------------------- */

enum sim_work_kind {
    SIM_WORK_EMPTY,
    SIM_WORK_KERNEL,
    SIM_WORK_COPY,
    SIM_WORK_FILL,
    SIM_WORK_HOST,
    SIM_WORK_MEMOP,
    SIM_WORK_RECORD,
    SIM_WORK_WAIT,
    SIM_WORK_ALLOC,
    SIM_WORK_FREE,
    SIM_WORK_CHILD,
};

#define SIM_LAUNCH_ATTRS 20

struct sim_kernel_work {
    struct sim_func *func;
    CUkernel kern;          /* as the program gave it, or NULL */
    struct sim_ctx *ctx;
    uint32_t grid[3], block[3], shared;
    bool extra;             /* came as a packed buffer */
    size_t bytes;
    uint32_t count;
    void **params;          /* count pointers into packed */
    unsigned char *packed;
    void *extras[5];
    size_t extra_bytes;
    uint32_t attr_mask;
    CUlaunchAttributeValue *attrs; /* SIM_LAUNCH_ATTRS, or NULL */
};

struct sim_copy_work {
    CUDA_MEMCPY3D desc;      /* as given */
    struct sim_ctx *ctx;
    uintptr_t dst, src;      /* first byte */
    size_t dst_pitch, src_pitch, dst_slice, src_slice;
    size_t width, height, depth;
    bool dst_host, src_host; /* memory that the host owns */
    bool dst_loose, src_loose; /* pageable */
    unsigned char *staged;   /* source bytes, packed; NULL: read at run time */
};

struct sim_fill_work {
    CUDA_MEMSET_NODE_PARAMS desc;
    struct sim_ctx *ctx;
};

struct sim_host_work {
    CUhostFn fn;
    CUstreamCallback callback;
    CUstream stream;
    void *data;
};

struct sim_memop_work {
    struct sim_ctx *ctx;
    uint32_t count, flags;
    CUstreamBatchMemOpParams *ops;
};

struct sim_alloc_work {
    CUDA_MEM_ALLOC_NODE_PARAMS desc;
    CUmemAccessDesc access[SIM_MAX_DEVICES];
    struct sim_range *range; /* free: NULL */
    CUdeviceptr at;
};

/* Never changes once an op or an exec may see it. */
struct sim_work {
    enum sim_work_kind kind;
    uint32_t refs;
    union {
        struct sim_kernel_work kernel;
        struct sim_copy_work copy;
        struct sim_fill_work fill;
        struct sim_host_work host;
        struct sim_memop_work memop;
        struct sim_event *event;
        struct sim_alloc_work alloc;
        struct sim_graph *child;
    };
};

struct sim_work *sim_work_new(enum sim_work_kind kind);
struct sim_work *sim_work_ref(struct sim_work *work);
void sim_work_drop(struct sim_work *work);
/* Does it, on the worker thread, without the lock. */
CUresult sim_work_run(struct sim_work *work);
/* Goes on with a batch of memory operations from *step; true: all done. */
bool sim_memop_step(const struct sim_work *work, uint32_t *step);

/* sim_launch.c */
CUresult sim_kernel_work_new(const CUDA_KERNEL_NODE_PARAMS_v3 *params,
                             const CUlaunchAttribute *attrs, unsigned count,
                             struct sim_work **out);
CUresult sim_kernel_work_attr(struct sim_work *work, CUlaunchAttributeID id,
                              const CUlaunchAttributeValue *value);
CUresult sim_kernel_run(const struct sim_kernel_work *work);

/* sim_copy.c */
CUresult sim_copy_work_new(const CUDA_MEMCPY3D *desc, struct sim_ctx *ctx,
                           struct sim_work **out);
CUresult sim_copy_run(const struct sim_copy_work *work);

/* sim_fill.c */
CUresult sim_fill_work_new(const CUDA_MEMSET_NODE_PARAMS *desc,
                           struct sim_ctx *ctx, struct sim_work **out);
CUresult sim_fill_run(const struct sim_fill_work *work);

/* sim_memop.c */
CUresult sim_memop_work_new(const CUstreamBatchMemOpParams *ops, unsigned count,
                            unsigned flags, struct sim_ctx *ctx,
                            struct sim_work **out);

/* ---- sim_exec.c: when an op is done ------------------------------------ */

struct sim_op {
    _Atomic bool done;
    uint32_t refs, waiting, step;
    struct sim_ctx *ctx;
    struct sim_work *work;    /* NULL: nothing to do */
    struct sim_op **next, *few[2]; /* who waits for it */
    uint32_t next_count, next_room;
    struct sim_op *link;
    uint64_t done_ns;
    void (*on_done)(void *);  /* (optional) called under the lock */
    void *on_done_arg;
};

/* A new op with one reference for the caller; it starts with sim_op_start.
 * Takes over the reference to `work`. */
struct sim_op *sim_op_new(struct sim_ctx *ctx, struct sim_work *work);
void sim_op_after(struct sim_op *op, struct sim_op *before); /* NULL is fine */
void sim_op_start(struct sim_op *op);
struct sim_op *sim_op_ref(struct sim_op *op);
void sim_op_drop(struct sim_op *op); /* NULL is fine */
/* Waits until the op is done; gives the lock up meanwhile. */
void sim_op_wait(struct sim_op *op);
void sim_op_wait_any(void); /* until some op is done */
static inline bool
sim_op_busy(const struct sim_op *op)
{
    return op != NULL && !atomic_load_explicit(&op->done, memory_order_acquire);
}
void sim_exec_stop(void);

/* ---- sim_stream.c, sim_event.c ----------------------------------------- */

struct sim_edge {
    struct sim_node *node;
    CUgraphEdgeData data;
};

struct sim_edges {
    struct sim_edge *at;
    uint32_t count, room;
};

struct sim_stream {
    struct sim_object object;
    struct sim_ctx *ctx;
    struct sim_stream *next;      /* of the context */
    unsigned flags;
    int priority;
    bool legacy, per_thread;
    struct sim_op *tail;
    struct sim_capture *capture;
    struct sim_edges front;       /* while capturing */
    CUgraphNode *front_nodes;     /* what GetCaptureInfo gave out */
    CUgraphEdgeData *front_data;
    CUlaunchAttributeValue *attrs; /* SIM_LAUNCH_ATTRS, or NULL */
};

struct sim_event {
    struct sim_object object;
    struct sim_ctx *ctx;
    unsigned flags;
    struct sim_op *op;           /* NULL: never recorded, or captured */
    uint64_t capture;            /* id of the capture it was recorded in */
    struct sim_edges front;
    bool dead;                   /* destroyed, but a node holds it */
    uint32_t refs;
};

struct sim_stream *sim_stream_new(struct sim_ctx *ctx, unsigned flags,
                                  int priority);
void sim_stream_free(struct sim_stream *stream);
/* The stream that a handle names in the current context; NULL: none. */
struct sim_stream *sim_stream_get(CUstream handle, bool ptds);
/* Enqueues the work (whose reference is taken) or captures it. *out, where
 * asked for, gets a reference to the op; NULL when captured. */
CUresult sim_stream_submit(struct sim_stream *stream, struct sim_work *work,
                           struct sim_op **out);
/* Makes `op` come after all that stream order asks for; makes it the tail. */
void sim_stream_order(struct sim_stream *stream, struct sim_op *op);
void sim_stream_advance(struct sim_stream *stream, struct sim_op *op);
CUresult sim_stream_check_implicit(struct sim_stream *stream);
void sim_event_drop(struct sim_event *event);
CUresult sim_event_record(struct sim_event *event, struct sim_stream *stream,
                          unsigned flags);
CUresult sim_event_wait(struct sim_stream *stream, struct sim_event *event,
                        unsigned flags);

/* ---- sim_capture.c ----------------------------------------------------- */

struct sim_capture {
    uint64_t id;
    CUstreamCaptureMode mode;
    bool broken;
    bool borrowed;               /* BeginCaptureToGraph: the program's graph */
    struct sim_graph *graph;
    struct sim_stream *origin;
    pthread_t thread;
    struct sim_capture *next;
};

/* A call that a capture forbids in this thread now: 0, or 900 (and the
 * captures that forbid it are invalidated). */
CUresult sim_capture_unsafe(void);
void sim_capture_break(struct sim_capture *capture);
/* The stream is destroyed while it takes part in a capture. */
void sim_capture_leave(struct sim_stream *stream);
struct sim_capture *sim_capture_find(uint64_t id);
CUresult sim_capture_add(struct sim_stream *stream, struct sim_work *work);
CUresult sim_capture_alloc(struct sim_stream *stream, struct sim_device *device,
                           size_t bytes, CUdeviceptr *out);
CUresult sim_capture_free(struct sim_stream *stream, struct sim_range *range);
/* Frees what a graph's alloc node gave, outside the graph. */
CUresult sim_graph_block_free(struct sim_range *range,
                              struct sim_stream *stream);
bool sim_capture_in(const struct sim_ctx *ctx); /* any, in that context */
void sim_capture_break_ctx(const struct sim_ctx *ctx);
void sim_edges_add(struct sim_edges *edges, struct sim_node *node,
                   const CUgraphEdgeData *data);
void sim_edges_remove(struct sim_edges *edges, uint32_t index);
void sim_edges_copy(struct sim_edges *to, const struct sim_edges *from);
void sim_edges_clear(struct sim_edges *edges);

/* ---- sim_pool.c -------------------------------------------------------- */

CUresult sim_pool_setup(struct sim_device *device);
CUresult sim_pool_alloc(struct sim_pool *pool, size_t bytes,
                        struct sim_stream *stream, CUdeviceptr *out);
/* Frees in stream order; `stream` NULL: at once. */
CUresult sim_pool_free(struct sim_range *range, struct sim_stream *stream);
/* The host has waited: memory over the release threshold goes back. */
void sim_pool_settle(void);
CUresult sim_memory_take(struct sim_device *device, size_t bytes);

/* ---- sim_vmm.c --------------------------------------------------------- */

struct sim_frame {
    struct sim_object object;
    size_t bytes;
    CUmemAllocationProp prop;
    struct sim_device *device; /* NULL: host memory */
    int fd;
    uint32_t refs;             /* handles given out and mappings */
    uint32_t handles;
};

extern size_t sim_granularity;

/* ---- sim_module.c, sim_func.c ------------------------------------------ */

struct sim_func {
    struct sim_object object;  /* SIM_FUNC or SIM_KERNEL */
    const char *name;
    void (*run)(const struct dcpsim_launch *);
    uint32_t param_count, shared;
    const struct dcpsim_param *params;
    int max_dynamic, carveout, cache, nonportable;
    struct sim_image *image;
    struct sim_ctx *ctx;         /* functions */
    struct sim_module *module;   /* functions */
    struct sim_library *library; /* kernels */
    struct sim_func *twin;     /* a function's kernel, a kernel's function */
    struct sim_func *next;
};

/* The function of the current context behind a CUfunction or a CUkernel. */
struct sim_func *sim_func_get(const void *handle);
bool sim_module_borrowed(const void *module);
void sim_module_forget(struct sim_ctx *ctx); /* the context goes */

#include "sim_graph.h"

#endif
