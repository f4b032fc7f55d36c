/* SPDX-License-Identifier: Apache-2.0 */
/* The memory that the program's allocations get: frames (frame.h) mapped into
 * one reserved virtual range (space.h), cut into blocks. Stream-ordered: a
 * block freed on a stream is reused on that stream at once, by another stream
 * only after the device has been seen idle past the free. All functions are
 * thread-safe. Sizes in bytes. */
#ifndef DCP_INTERCEPT_HEAP_H
#define DCP_INTERCEPT_HEAP_H

#include "intercept/hook_cuda.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct dcp_heap_options {
    size_t budget;        /* device bytes; 0: all that the GPU has */
    size_t large_bytes;   /* blocks at least this big get pages of their own;
                             0: 16 MiB */
    bool spill;           /* over budget: frames in host memory, else error */
};

struct dcp_block {
    CUdeviceptr base;
    size_t bytes;         /* as asked for */
    uint64_t id;          /* counts allocations from 1; never reused */
    bool host;            /* some of it is backed by host memory */
    uint8_t pool;         /* number of the pool it was asked from; 0: none */
};

struct dcp_heap_stats {
    size_t used, used_peak;         /* live blocks, as asked for (rounded) */
    size_t reserved, reserved_peak; /* device frames held */
    size_t unused;                  /* of these: without a live block */
    size_t planned;                 /* of used: in the planned range */
    size_t host, host_peak;         /* host frames held */
    uint64_t allocs, frees;
};

/* How many stream captures the program has open. Whoever watches its calls
 * keeps count; while it is not 0 the heap neither waits nor records events. */
extern atomic_int dcp_heap_captures;

/* Before the first allocation; takes effect when the first context exists. */
void dcp_heap_configure(const struct dcp_heap_options *options);

/* A block of at least `bytes`, aligned to 512 (as the driver's pools are).
 * `stream` is normalised (dcp_hook_stream). `sync` allocations
 * (cuMemAlloc) are usable from every stream at once. Errors: the driver's own:
 * INVALID_VALUE for 0 bytes, OUT_OF_MEMORY when neither frames nor host frames
 * can be had (after free frames were reused and trimmed); NOT_SUPPORTED where
 * the heap cannot work here (no virtual memory management: one log line), and
 * the driver has to be asked. */
CUresult dcp_heap_alloc(size_t bytes, CUstream stream, bool sync,
                        CUdeviceptr *out);

/* The same for a numbered pool (below DCP_HEAP_POOLS), whose live bytes are
 * counted apart. */
enum { DCP_HEAP_POOLS = 16 };
CUresult dcp_heap_alloc_pool(size_t bytes, CUstream stream, bool sync,
                             unsigned pool, CUdeviceptr *out);
void dcp_heap_pool_use(unsigned pool, size_t *now, size_t *peak);
void dcp_heap_pool_reset_peak(unsigned pool);

/* Stream-ordered free of a block's base. NOT_FOUND when it is none of ours
 * (the caller forwards it to the driver), INVALID_VALUE when it lies in our
 * range and is not the base of a live block. */
CUresult dcp_heap_free(CUdeviceptr base, CUstream stream);

/* cuMemFree: waits for the device (unless a capture is open in the process,
 * when the wait is put off to the next reuse), then frees. */
CUresult dcp_heap_free_sync(CUdeviceptr base);

/* The live block that `address` lies in. False when there is none. */
bool dcp_heap_find(CUdeviceptr address, struct dcp_block *out);

/* True when `address` lies in our virtual range, live or not. No lock. */
bool dcp_heap_owns(CUdeviceptr address);

/* The whole virtual range, [*base, *base + *bytes); 0, 0 before first use. */
void dcp_heap_range(CUdeviceptr *base, size_t *bytes);

/* For a listener that holds calls back: is_held (any thread, no lock taken, no
 * call of the heap) says whether there are any; issue is called, with no lock
 * of the heap held, before the heap waits for the device. */
void dcp_heap_on_pressure(bool (*is_held)(void), void (*issue)(void));

/* How many stream captures the program has open. Whoever watches its calls
 * keeps count; while it is not 0 the heap neither waits nor records events. */
extern atomic_int dcp_heap_captures;

/* Gives back frames that hold no live block until at most `keep` bytes of
 * free frames are held. The device must be idle (the caller has waited).
 * Returns the device bytes given back. */
size_t dcp_heap_trim(size_t keep);

/* Calls visit for each live block in order of address (arena blocks too). */
void dcp_heap_each(void (*visit)(const struct dcp_block *, void *), void *user);

/* Calls visit for each mapped range, whether blocks live in it or not. */
void dcp_heap_each_range(void (*visit)(CUdeviceptr base, size_t bytes, void *),
                         void *user);

void dcp_heap_get_stats(struct dcp_heap_stats *out);
void dcp_heap_reset_peak(void);

/* True when the thread's current context is the one that the heap serves: the
 * primary context of the first device that was asked for memory. */
bool dcp_heap_serves(void);

/* That context; NULL before there is one. */
CUcontext dcp_heap_context(void);

/* The program is about to destroy a stream (call before the driver does). */
void dcp_heap_stream_gone(CUstream stream);

/* The device is about to lose its context (cuDevicePrimaryCtxReset, the last
 * release, cuCtxDestroy of it): gives everything back and starts anew with the
 * next allocation. Call before the driver does, with that context current and
 * its work done. */
void dcp_heap_reset(void);

/* The same where the context has gone already. */
void dcp_heap_forget(void);

/* One listener for every allocation and free of a block outside the planned
 * range; NULL (the default) for none. `reserved` is what device frames take at
 * that moment. Called with the heap's lock held: it must be quick and must not
 * call the heap. */
enum dcp_heap_event_kind { DCP_HEAP_ALLOC, DCP_HEAP_FREE };
typedef void dcp_heap_listener(enum dcp_heap_event_kind kind,
                               const struct dcp_block *block, CUstream stream,
                               uint64_t reserved);
void dcp_heap_event(dcp_heap_listener *listener);

/* A planned range: replay hands out addresses inside it by itself, without the
 * heap's lock; the heap only keeps the frames and passes questions on. */
struct dcp_arena_ops {
    bool (*find)(CUdeviceptr address, struct dcp_block *out);
    CUresult (*free)(CUdeviceptr base, CUstream stream);
    size_t (*used)(void);      /* live bytes in the range */
    void (*each)(void (*visit)(const struct dcp_block *, void *), void *user);
};

/* Reserves and backs a planned range of at least `bytes` (at most one at a
 * time exists; a larger one replaces a smaller one only when used() is 0,
 * INVALID_VALUE otherwise; its base stays the same). Where device memory is
 * short and spilling is allowed, parts of it are in host memory. May wait for
 * the device: not while a capture is open. OUT_OF_MEMORY leaves things as they
 * were. */
CUresult dcp_heap_plan_range(size_t bytes, const struct dcp_arena_ops *ops,
                             CUdeviceptr *base);

/* Gives the planned range's frames back (used() must be 0). */
void dcp_heap_plan_drop(void);

#endif
