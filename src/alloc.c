/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "src/alloc.h"

#include "src/log.h"

#include <stdlib.h>
#include <sys/mman.h>

atomic_long dcp_alloc_left;

void
dcp_alloc_fail_at(long at)
{
    atomic_store(&dcp_alloc_left, at);
}

bool
dcp_alloc_count(void)
{
    if (atomic_fetch_sub(&dcp_alloc_left, 1) != 1)
        return false;
    dcp_warn("an allocation fails, as the test wants it");
    return true;
}

void *
dcp_malloc(size_t bytes)
{
    return dcp_alloc_fails() ? NULL : malloc(bytes);
}

void *
dcp_calloc(size_t count, size_t bytes)
{
    return dcp_alloc_fails() ? NULL : calloc(count, bytes);
}

void *
dcp_realloc(void *old, size_t bytes)
{
    return dcp_alloc_fails() ? NULL : realloc(old, bytes);
}

void *
dcp_map(size_t bytes)
{
    if (dcp_alloc_fails())
        return NULL;
    void *map = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return map == MAP_FAILED ? NULL : map;
}
