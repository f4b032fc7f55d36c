/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "intercept/space.h"

#include "src/alloc.h"
#include "src/arena.h"

#include "intercept/hook.h"

#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>

/* A free run of the lower half; the list is in order of address. */
struct run {
    struct run *next;
    CUdeviceptr base;
    size_t bytes;
};

struct dcp_space dcp_space;

static struct {
    size_t top;           /* pages from here on never had an owner */
    struct run *free, *spare;
    struct dcp_arena arena;
} runs;

static struct run *
run_new(struct run *next, CUdeviceptr base, size_t bytes)
{
    struct run *run = runs.spare;

    if (run)
        runs.spare = run->next;
    else
        run = dcp_arena_alloc(&runs.arena, sizeof *run);
    if (run)
        *run = (struct run){ next, base, bytes };
    return run;
}

static void
run_drop(struct run **link)
{
    struct run *run = *link;

    *link = run->next;
    run->next = runs.spare;
    runs.spare = run;
}

static CUresult
reserve(size_t *bytes, size_t least, size_t page, CUdeviceptr *base)
{
    size_t want = page * 4;
    CUresult cu;

    while (want < *bytes)
        want *= 2;
    do {
        cu = dcp_real.cuMemAddressReserve(base, want, page, 0, 0);
        if (cu == CUDA_SUCCESS) {
            *bytes = want;
            return cu;
        }
        want /= 2;
    } while (want >= least && want >= page * 4);
    return cu;
}

CUresult
dcp_space_open(size_t bytes, size_t least, size_t page)
{
    CUdeviceptr base;
    CUresult cu = reserve(&bytes, least, page, &base);

    if (cu != CUDA_SUCCESS)
        return cu;
    dcp_space.half = bytes / 2;
    dcp_space.shift = (unsigned)__builtin_ctzll(page);
    runs.top = 0;
    void *map = dcp_map((dcp_space.half >> dcp_space.shift) * sizeof(void *));
    runs.free = map == NULL ? NULL : run_new(NULL, base, dcp_space.half);
    if (runs.free == NULL) {
        if (map != NULL)
            munmap(map, (dcp_space.half >> dcp_space.shift) * sizeof(void *));
        dcp_real.cuMemAddressFree(base, bytes);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    dcp_space.owners = map;
    atomic_store(&dcp_space.bytes, bytes);
    atomic_store(&dcp_space.base, base);
    return CUDA_SUCCESS;
}

void
dcp_space_close(void)
{
    CUdeviceptr base = atomic_exchange(&dcp_space.base, 0);
    size_t bytes = atomic_exchange(&dcp_space.bytes, 0);

    if (base == 0)
        return;
    munmap(dcp_space.owners,
           (dcp_space.half >> dcp_space.shift) * sizeof(void *));
    dcp_space.owners = NULL;
    runs.free = runs.spare = NULL;
    dcp_arena_release(&runs.arena);
    dcp_real.cuMemAddressFree(base, bytes);
}

void
dcp_space_get(CUdeviceptr *base, size_t *bytes)
{
    *base = atomic_load(&dcp_space.base);
    *bytes = *base ? atomic_load(&dcp_space.bytes) : 0;
}

void
dcp_space_plan(CUdeviceptr *base, size_t *bytes)
{
    *base = atomic_load(&dcp_space.base) + dcp_space.half;
    *bytes = dcp_space.half;
}

CUdeviceptr
dcp_space_take(size_t bytes)
{
    for (struct run **link = &runs.free; *link; link = &(*link)->next) {
        struct run *run = *link;

        if (run->bytes < bytes)
            continue;
        CUdeviceptr base = run->base;
        run->base += bytes;
        run->bytes -= bytes;
        if (run->bytes == 0)
            run_drop(link);
        return base;
    }
    return 0;
}

void
dcp_space_put(CUdeviceptr base, size_t bytes)
{
    struct run **link = &runs.free, *before = NULL;

    dcp_space_set_owner(base, bytes, NULL);
    while (*link && (*link)->base < base) {
        before = *link;
        link = &before->next;
    }
    if (before && before->base + before->bytes == base) {
        before->bytes += bytes;
    } else {
        /* Without memory for a node the addresses are lost, no more. */
        before = run_new(*link, base, bytes);
        if (before == NULL)
            return;
        *link = before;
    }
    struct run *after = before->next;
    if (after && before->base + before->bytes == after->base) {
        before->bytes += after->bytes;
        run_drop(&before->next);
    }
}

void
dcp_space_set_owner(CUdeviceptr base, size_t bytes, void *owner)
{
    CUdeviceptr start =
        atomic_load_explicit(&dcp_space.base, memory_order_relaxed);
    size_t first = (base - start) >> dcp_space.shift;
    size_t end = (base + bytes - start) >> dcp_space.shift;

    for (size_t i = first; i < end; i++)
        dcp_space.owners[i] = owner;
    if (owner && end > runs.top)
        runs.top = end;
}

CUdeviceptr
dcp_space_next(CUdeviceptr from)
{
    CUdeviceptr base = atomic_load(&dcp_space.base);
    size_t i = from > base ? (from - base) >> dcp_space.shift : 0;

    for (; i < runs.top; i++)
        if (dcp_space.owners[i])
            return base + ((CUdeviceptr)i << dcp_space.shift);
    return 0;
}
