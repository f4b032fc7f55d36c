/* SPDX-License-Identifier: Apache-2.0 */
/* Owners of free pieces: the streams that the frees were ordered in, and how
 * far the device is known to have come in each. */
#include "config.h"

#include "src/log.h"

#include "intercept/heap_core.h"
#include "intercept/hook.h"

/* A thread's own stream is a different one in every thread: its key is made
 * of the number of the thread. Handles are multiples of 8, legacy is 1, and 2,
 * the handle for them all, is nobody's key. */
static uint64_t
key_of(CUstream stream)
{
    static atomic_uint count;
    static __thread unsigned number;

    if (stream != CU_STREAM_PER_THREAD)
        return (uint64_t)(uintptr_t)stream;
    if (number == 0)
        number = atomic_fetch_add(&count, 1) + 1;
    return (uint64_t)number << 3 | 2; /* 10, 18, ... */
}

static struct dcp_owner **
chain_of(uint64_t key)
{
    return &dcp_heap.hash[(key * 0x9e3779b97f4a7c15u) >> 58];
}

/* An owner that went and whose work is over serves again: what it still owns
 * is idle and may as well belong to the next stream. */
static struct dcp_owner *
owner_spare(void)
{
    for (struct dcp_owner *owner = dcp_heap.owners; owner; owner = owner->next)
        if (owner->key == 0 && owner != dcp_heap.nobody &&
            owner != dcp_heap.limbo &&
            (owner->last <= dcp_heap.idle || owner->last <= owner->done))
            return owner;
    return NULL;
}

static struct dcp_owner *
owner_new(void)
{
    struct dcp_owner *owner =
        dcp_arena_alloc(&dcp_heap.arena, sizeof *owner);

    if (owner) {
        owner->next = dcp_heap.owners;
        dcp_heap.owners = owner;
    }
    return owner;
}

bool
dcp_owner_start(void)
{
    dcp_heap.nobody = owner_new();
    dcp_heap.limbo = owner_new();
    return dcp_heap.nobody && dcp_heap.limbo;
}

struct dcp_owner *
dcp_owner_find(CUstream stream)
{
    uint64_t key = key_of(stream);
    struct dcp_owner *owner;

    for (owner = *chain_of(key); owner; owner = owner->chain)
        if (owner->key == key)
            return dcp_heap.recent = owner;
    owner = owner_spare();
    if (owner == NULL)
        owner = owner_new();
    if (owner == NULL)
        return NULL;
    owner->key = key;
    owner->stream = stream;
    owner->chain = *chain_of(key);
    *chain_of(key) = owner;
    return dcp_heap.recent = owner;
}

static bool
fence_record(struct dcp_owner *owner)
{
    if (owner->key == 0 || owner->key != key_of(owner->stream))
        return false;
    if (owner->event == NULL &&
        dcp_real.cuEventCreate(&owner->event, CU_EVENT_DISABLE_TIMING)) {
        owner->event = NULL;
        return false;
    }
    if (dcp_real.cuEventRecord(owner->event, owner->stream))
        return false;
    owner->mark = owner->last;
    return true;
}

static void
fence_query(struct dcp_owner *owner)
{
    CUresult cu = dcp_real.cuEventQuery(owner->event);

    if (cu == CUDA_ERROR_NOT_READY)
        return;
    if (cu == CUDA_SUCCESS)
        owner->done = owner->mark;
    owner->mark = 0;
}

void
dcp_owner_poll(struct dcp_owner *owner)
{
    /* Events would become part of an open capture, or end it; and one recorded
     * now would not cover calls that are still held back. */
    if (atomic_load(&dcp_heap_captures) || dcp_heap_held())
        return;
    if (owner->mark)
        fence_query(owner);
    if (owner->mark == 0 && owner->last > owner->done &&
        owner->last > dcp_heap.idle && fence_record(owner))
        fence_query(owner);
}

void
dcp_owner_retire(CUstream stream)
{
    uint64_t key = key_of(stream);
    struct dcp_owner **link = chain_of(key);

    while (*link && (*link)->key != key)
        link = &(*link)->chain;
    struct dcp_owner *owner = *link;
    if (owner == NULL)
        return;
    if (owner->last > owner->done && owner->last > dcp_heap.idle &&
        atomic_load(&dcp_heap_captures) == 0)
        fence_record(owner);
    *link = owner->chain;
    owner->chain = NULL;
    owner->key = 0;
    if (dcp_heap.recent == owner)
        dcp_heap.recent = NULL;
}

void
dcp_owner_forget(bool gone)
{
    for (struct dcp_owner *owner = dcp_heap.owners; owner; owner = owner->next)
        if (owner->event && !gone)
            dcp_real.cuEventDestroy_v2(owner->event);
    dcp_heap.owners = dcp_heap.recent = NULL;
    dcp_heap.nobody = dcp_heap.limbo = NULL;
    for (int i = 0; i < 64; i++)
        dcp_heap.hash[i] = NULL;
}
