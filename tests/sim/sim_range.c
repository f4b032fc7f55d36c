/* SPDX-License-Identifier: Apache-2.0 */
/* What lies at an address: one list of all ranges that the driver gave out or
 * took note of, in order of address. Reservations and the pools' memory are
 * kept apart, as mappings and blocks lie inside them. */
#include "sim.h"

#include <stdlib.h>
#include <string.h>

struct list {
    struct sim_range **at;
    size_t count, room;
};

static struct list ranges, reservations;
static struct list held; /* pools' memory: in use or free, it does not fault */
static uint64_t next_id;

/* The number of ranges that begin at or below `address`. */
static size_t
upper(const struct list *list, uintptr_t address)
{
    size_t low = 0, high = list->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (list->at[middle]->base <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static struct list *
list_of(const struct sim_range *range)
{
    switch (range->place) {
    case SIM_RESERVED: return &reservations;
    case SIM_HELD: return &held;
    default: return &ranges;
    }
}

int
sim_range_add(struct sim_range *range)
{
    struct list *list = list_of(range);
    size_t slot = upper(list, range->base);
    if (slot > 0) {
        struct sim_range *before = list->at[slot - 1];
        if (before->base + before->bytes > range->base)
            return -1;
    }
    if (slot < list->count &&
        list->at[slot]->base < range->base + range->bytes)
        return -1;
    if (list->count == list->room) {
        list->room = list->room ? list->room * 2 : 256;
        list->at = realloc(list->at, list->room * sizeof *list->at);
    }
    memmove(list->at + slot + 1, list->at + slot,
            (list->count - slot) * sizeof *list->at);
    list->at[slot] = range;
    list->count++;
    if (range->id == 0)
        range->id = ++next_id;
    return 0;
}

void
sim_range_remove(struct sim_range *range)
{
    struct list *list = list_of(range);
    size_t slot = upper(list, range->base) - 1;
    list->count--;
    memmove(list->at + slot, list->at + slot + 1,
            (list->count - slot) * sizeof *list->at);
}

static struct sim_range *
find_in(const struct list *list, uintptr_t address)
{
    size_t slot = upper(list, address);
    if (slot == 0)
        return NULL;
    struct sim_range *range = list->at[slot - 1];
    return address - range->base < range->bytes ? range : NULL;
}

struct sim_range *
sim_range_find(uintptr_t address)
{
    struct sim_range *range = find_in(&ranges, address);
    return range ? range : find_in(&reservations, address);
}

struct sim_range *
sim_range_next(uintptr_t address)
{
    size_t slot = address ? upper(&ranges, address - 1) : 0;
    return slot < ranges.count ? ranges.at[slot] : NULL;
}

bool
sim_range_is_device(const struct sim_range *range)
{
    return range->place != SIM_PINNED && range->place != SIM_REGISTERED;
}

CUresult
sim_range_check(uintptr_t at, size_t bytes, bool host)
{
    const struct sim_range *range = sim_range_find(at);
    if (range == NULL)
        return host ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    uintptr_t end = at + bytes;
    if (end < at)
        return CUDA_ERROR_INVALID_VALUE;
    if (!sim_range_is_device(range)) /* may run on into ordinary memory */
        return CUDA_SUCCESS;
    while (at < end) {
        range = sim_range_find(at);
        if (range == NULL || (!range->live && range->place != SIM_GRAPHED))
            return CUDA_ERROR_INVALID_VALUE;
        uintptr_t next = range->base + range->bytes;
        if (range->place == SIM_RESERVED ||
            (range->place == SIM_MAPPED &&
             range->flags == CU_MEM_ACCESS_FLAGS_PROT_NONE))
            return CUDA_ERROR_INVALID_VALUE; /* nobody may get at it */
        if (range->place != SIM_MAPPED && next < end)
            return CUDA_ERROR_INVALID_VALUE; /* past the end of the block */
        at = next;
    }
    return CUDA_SUCCESS;
}

/* How far from `at` memory is usable in one piece; 0: not at all. */
static size_t
usable_from(uintptr_t at, bool write)
{
    const struct sim_range *range = sim_range_find(at);
    if (range == NULL) {
        range = find_in(&held, at);
        if (range == NULL)
            return sim_arena_owns(at) ? 0 : SIZE_MAX;
    }
    if (range->place == SIM_RESERVED)
        return 0;
    if (range->place == SIM_MAPPED &&
        (range->flags == CU_MEM_ACCESS_FLAGS_PROT_NONE ||
         (write && range->flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)))
        return 0;
    return range->base + range->bytes - at;
}

bool
sim_range_usable(uintptr_t at, size_t bytes, bool write)
{
    while (bytes > 0) {
        size_t step = usable_from(at, write);
        if (step == 0)
            return false;
        if (step >= bytes)
            break;
        at += step;
        bytes -= step;
    }
    return true;
}

CUresult
sim_range_touch(uintptr_t at, size_t bytes, bool write)
{
    pthread_mutex_lock(&sim_lock);
    bool usable = sim_range_usable(at, bytes, write);
    pthread_mutex_unlock(&sim_lock);
    return usable ? CUDA_SUCCESS : CUDA_ERROR_ILLEGAL_ADDRESS;
}

size_t
sim_range_count(enum sim_place place)
{
    const struct list *list = place == SIM_RESERVED ? &reservations : &ranges;
    size_t count = 0;
    for (size_t i = 0; i < list->count; i++)
        count += list->at[i]->place == place && list->at[i]->live;
    return count;
}
