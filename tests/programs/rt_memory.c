/* SPDX-License-Identifier: Apache-2.0 */
/* Device memory as different programs get it. */
#include "tests/programs/rt.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum { ASYNC, SYNC, POOL, OWN } mode;
static CUmemoryPool pool;

/* ---- --alloc own: one block, cut up by the program itself -------------- */

struct piece {
    size_t first, bytes;
    bool taken;
};

static CUdeviceptr arena;
static struct piece *pieces; /* by address, without gaps */
static size_t piece_count, piece_room;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void
arena_open(size_t bytes)
{
    CU(cuMemAlloc, &arena, bytes);
    rt_own(RT_MEMORY, (void *)arena);
    piece_room = 1 << 16;
    pieces = calloc(piece_room, sizeof *pieces);
    if (pieces == NULL)
        abort();
    pieces[0] = (struct piece){0, bytes, false};
    piece_count = 1;
}

static void *
arena_alloc(size_t bytes)
{
    bytes = (bytes + 511) & ~(size_t)511;
    size_t i = 0;
    while (i < piece_count && (pieces[i].taken || pieces[i].bytes < bytes))
        i++;
    if (i == piece_count || piece_count == piece_room)
        rt_check(CUDA_ERROR_OUT_OF_MEMORY, "arena");
    if (pieces[i].bytes > bytes) {
        memmove(&pieces[i + 1], &pieces[i],
                (piece_count++ - i) * sizeof *pieces);
        pieces[i + 1].first += bytes;
        pieces[i + 1].bytes -= bytes;
        pieces[i].bytes = bytes;
    }
    pieces[i].taken = true;
    return (void *)(arena + pieces[i].first);
}

static void
join_with_next(size_t i)
{
    if (i + 1 >= piece_count || pieces[i].taken || pieces[i + 1].taken)
        return;
    pieces[i].bytes += pieces[i + 1].bytes;
    piece_count--;
    memmove(&pieces[i + 1], &pieces[i + 2],
            (piece_count - i - 1) * sizeof *pieces);
}

static void
arena_free(void *at)
{
    for (size_t i = 0; i < piece_count; i++) {
        if (arena + pieces[i].first != rt_ptr(at))
            continue;
        pieces[i].taken = false;
        join_with_next(i);
        if (i > 0)
            join_with_next(i - 1);
        return;
    }
}

/* ---- all of them ------------------------------------------------------- */

static void
pool_open(void)
{
    CUmemPoolProps props;
    memset(&props, 0, sizeof props);
    props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    props.location.id = rt_device;
    CU(cuMemPoolCreate, &pool, &props);
    rt_own(RT_POOL, pool);
    cuuint64_t keep = UINT64_MAX;
    CU(cuMemPoolSetAttribute, pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep);
}

void
rt_memory_open(const char *name, int arena_mib)
{
    static const char *const names[] = {"async", "sync", "pool", "own"};
    size_t i = 0;
    while (i < 4 && strcmp(name, names[i]) != 0)
        i++;
    if (i == 4) {
        fprintf(stderr, "unknown --alloc %s\n", name);
        exit(2);
    }
    mode = i;
    if (mode == POOL)
        pool_open();
    if (mode == OWN)
        arena_open((size_t)arena_mib << 20);
}

void
rt_memory_close(void)
{
    if (mode == POOL) {
        CU(cuCtxSynchronize);
        CU(cuMemPoolDestroy, pool);
        rt_disown(RT_POOL, pool);
    }
    if (mode == OWN) {
        CU(cuMemFree, arena);
        rt_disown(RT_MEMORY, (void *)arena);
        free(pieces);
    }
}

void *
rt_alloc(size_t bytes)
{
    CUdeviceptr at = 0;
    void *piece;
    switch (mode) {
    case ASYNC:
        CU(cuMemAllocAsync, &at, bytes, rt_stream);
        break;
    case SYNC:
        CU(cuMemAlloc, &at, bytes);
        break;
    case POOL:
        CU(cuMemAllocFromPoolAsync, &at, bytes, pool, rt_stream);
        break;
    case OWN:
        pthread_mutex_lock(&lock);
        piece = arena_alloc(bytes);
        pthread_mutex_unlock(&lock);
        return piece;
    }
    rt_own(mode == SYNC ? RT_MEMORY : RT_ASYNC_MEMORY, (void *)at);
    return (void *)at;
}

void
rt_free(void *at)
{
    if (at == NULL)
        return;
    if (mode == OWN) {
        pthread_mutex_lock(&lock);
        arena_free(at);
        pthread_mutex_unlock(&lock);
        return;
    }
    if (mode == SYNC)
        CU(cuMemFree, rt_ptr(at));
    else
        CU(cuMemFreeAsync, rt_ptr(at), rt_stream);
    rt_disown(mode == SYNC ? RT_MEMORY : RT_ASYNC_MEMORY, at);
}

void
rt_upload(void *device, const void *host, size_t bytes)
{
    CU(cuMemcpyHtoDAsync, rt_ptr(device), host, bytes, rt_stream);
}

void
rt_read(void *host, const void *device, size_t bytes)
{
    CU(cuMemcpyDtoHAsync, host, rt_ptr(device), bytes, rt_stream);
    CU(cuStreamSynchronize, rt_stream);
}
