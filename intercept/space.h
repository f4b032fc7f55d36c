/* SPDX-License-Identifier: Apache-2.0 */
/* The one virtual range that all our memory lies in, cut into two halves: the
 * lower one is dealt out in runs of pages, the upper one is the planned range.
 * A page table says who owns a page. Calls are serialised by the heap's lock,
 * except for the questions marked "no lock". */
#ifndef DCP_INTERCEPT_SPACE_H
#define DCP_INTERCEPT_SPACE_H

#include "intercept/hook_cuda.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

/* What the questions below read; space.c alone writes it, base last. */
struct dcp_space {
    atomic_ullong base; /* 0: closed */
    atomic_size_t bytes;
    size_t half;
    unsigned shift;     /* of a page */
    void **owners;      /* one a page of the lower half */
};

extern struct dcp_space dcp_space;

/* Reserves the range: `bytes` (rounded up to a power of two), or half as much
 * as often as the driver refuses, down to `least`. `page` is the frames' page
 * size. On an error nothing is left. */
CUresult dcp_space_open(size_t bytes, size_t least, size_t page);

/* Gives the range back; no frame may be mapped in it any more. */
void dcp_space_close(void);

/* The whole range; 0, 0 while it is closed. No lock. */
void dcp_space_get(CUdeviceptr *base, size_t *bytes);

/* True when `address` lies in the range. No lock. */
static inline bool
dcp_space_has(CUdeviceptr address)
{
    CUdeviceptr base =
        atomic_load_explicit(&dcp_space.base, memory_order_acquire);

    return base && address - base < atomic_load_explicit(&dcp_space.bytes,
                                                         memory_order_relaxed);
}

/* True when an address of the range lies in its upper half. No lock. */
static inline bool
dcp_space_is_planned(CUdeviceptr address)
{
    return address - atomic_load_explicit(&dcp_space.base,
                                          memory_order_acquire) >=
           dcp_space.half;
}

/* The upper half. */
void dcp_space_plan(CUdeviceptr *base, size_t *bytes);

/* A run of whole pages of the lower half, at the lowest address that fits,
 * aligned to a page; 0 when there is none. Its pages have no owner. */
CUdeviceptr dcp_space_take(size_t bytes);

/* Gives a run back; it need not be a whole one. */
void dcp_space_put(CUdeviceptr base, size_t bytes);

/* Writes the owner of every page of a run. */
void dcp_space_set_owner(CUdeviceptr base, size_t bytes, void *owner);

/* The owner of the page that `address` lies in; NULL for none and outside of
 * the lower half. */
static inline void *
dcp_space_owner(CUdeviceptr address)
{
    CUdeviceptr base =
        atomic_load_explicit(&dcp_space.base, memory_order_relaxed);

    if (base == 0 || address - base >= dcp_space.half)
        return NULL;
    return dcp_space.owners[(address - base) >> dcp_space.shift];
}

/* The lowest address from `from` on whose page has an owner; 0 for none. */
CUdeviceptr dcp_space_next(CUdeviceptr from);

#endif
