/* SPDX-License-Identifier: Apache-2.0 */
/* Address space for device memory: one reservation for the whole process, so
 * that a freed device address is never host memory afterwards. Free stretches
 * have no access; a stray use faults. */
#include "sim.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct gap {
    uintptr_t base;
    size_t bytes;
    struct gap *next;
};

static struct gap *gaps; /* by address, never adjacent */
static size_t page;
static int poison = -1;
static uintptr_t arena_base;
static size_t arena_bytes;

size_t
sim_page_round(size_t bytes)
{
    if (page == 0)
        page = (size_t)sysconf(_SC_PAGESIZE);
    return (bytes + page - 1) / page * page;
}

static bool
arena_open(void)
{
    size_t bytes = (size_t)sim_env("DCPSIM_ARENA_BYTES", (uint64_t)1 << 38);
    void *base = MAP_FAILED;
    for (; bytes >= (size_t)1 << 30 && base == MAP_FAILED; bytes /= 2) {
        base = mmap(NULL, bytes, PROT_NONE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (base != MAP_FAILED)
            break;
    }
    if (base == MAP_FAILED)
        return false;
    gaps = calloc(1, sizeof *gaps);
    gaps->base = (uintptr_t)base;
    gaps->bytes = bytes;
    arena_base = (uintptr_t)base;
    arena_bytes = bytes;
    poison = (int)(int64_t)sim_env("DCPSIM_POISON", (uint64_t)-1);
    return true;
}

bool
sim_arena_owns(uintptr_t address)
{
    return address - arena_base < arena_bytes;
}

/* Cuts [base, base + bytes) out of the gap that *link names. */
static void
gap_cut(struct gap **link, uintptr_t base, size_t bytes)
{
    struct gap *gap = *link;
    size_t before = base - gap->base;
    size_t after = gap->bytes - before - bytes;
    if (after > 0) {
        struct gap *rest = before > 0 ? calloc(1, sizeof *rest) : gap;
        if (rest != gap) {
            rest->next = gap->next;
            gap->next = rest;
            gap->bytes = before;
        }
        rest->base = base + bytes;
        rest->bytes = after;
    } else if (before > 0) {
        gap->bytes = before;
    } else {
        *link = gap->next;
        free(gap);
    }
}

void *
sim_arena_alloc(size_t bytes, size_t align)
{
    static bool opened;
    if (!opened && !(opened = arena_open()))
        return NULL;
    bytes = sim_page_round(bytes);
    if (align < page)
        align = page;
    for (struct gap **link = &gaps; *link; link = &(*link)->next) {
        uintptr_t base = ((*link)->base + align - 1) & ~(uintptr_t)(align - 1);
        size_t skip = base - (*link)->base;
        if ((*link)->bytes < skip || (*link)->bytes - skip < bytes)
            continue;
        if (mprotect((void *)base, bytes, PROT_READ | PROT_WRITE) != 0)
            return NULL;
        gap_cut(link, base, bytes);
        if (poison >= 0)
            memset((void *)base, poison, bytes);
        return (void *)base;
    }
    return NULL;
}

void
sim_arena_free(void *at, size_t bytes)
{
    uintptr_t base = (uintptr_t)at;
    bytes = sim_page_round(bytes);
    mmap(at, bytes, PROT_NONE,
         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    struct gap **link = &gaps, *before = NULL;
    while (*link && (*link)->base < base) {
        before = *link;
        link = &before->next;
    }
    struct gap *after = *link;
    if (before && before->base + before->bytes == base) {
        before->bytes += bytes;
        if (after && after->base == base + bytes) {
            before->bytes += after->bytes;
            before->next = after->next;
            free(after);
        }
    } else if (after && after->base == base + bytes) {
        after->base = base;
        after->bytes += bytes;
    } else {
        struct gap *gap = calloc(1, sizeof *gap);
        gap->base = base;
        gap->bytes = bytes;
        gap->next = after;
        *link = gap;
    }
}
