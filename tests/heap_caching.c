/* SPDX-License-Identifier: Apache-2.0 */
/* A model of PyTorch's caching allocator as its documentation describes it:
 * sizes in multiples of 512 bytes; requests up to 1 MiB from segments of 2
 * MiB, up to 10 MiB from segments of 20 MiB, others from segments of their own
 * in multiples of 2 MiB; best fit, splitting, joining; nothing is
 * given back. */
#include "config.h"

#include "tests/heap_step.h"

#include <stdlib.h>
#include <string.h>

#define MIB ((size_t)1 << 20)

enum { PARTS = 1 << 18 };

struct part {
    size_t base, bytes;
    int prev, next; /* in the segment; -1: none */
    char live, small, used;
};

static struct part *part;
static int part_count, spare[PARTS], spare_count;
static size_t reserved, top;

void
caching_start(void)
{
    if (part == NULL)
        part = malloc(PARTS * sizeof *part);
    part_count = spare_count = 0;
    reserved = 0;
    top = MIB;
}

static int
part_new(void)
{
    if (spare_count)
        return spare[--spare_count];
    if (part_count == PARTS)
        abort();
    return part_count++;
}

static int
best_fit(size_t bytes, int small)
{
    int best = -1;

    for (int i = 0; i < part_count; i++) {
        const struct part *p = &part[i];

        if (!p->used || p->live || p->small != small || p->bytes < bytes)
            continue;
        if (best < 0 || p->bytes < part[best].bytes ||
            (p->bytes == part[best].bytes && p->base < part[best].base))
            best = i;
    }
    return best;
}

static int
segment_new(size_t bytes, int small)
{
    size_t want = 2 * MIB;
    int i = part_new();

    if (!small)
        want = bytes < 10 * MIB ? 20 * MIB
                                : (bytes + 2 * MIB - 1) & ~(2 * MIB - 1);
    part[i] = (struct part){ top, want, -1, -1, 0, (char)small, 1 };
    top += want;
    reserved += want;
    return i;
}

int
caching_alloc(size_t bytes)
{
    bytes = (bytes + 511) & ~(size_t)511;
    int small = bytes <= MIB;
    int i = best_fit(bytes, small);

    if (i < 0)
        i = segment_new(bytes, small);
    size_t rest = part[i].bytes - bytes;
    if (small ? rest >= 512 : rest > MIB) {
        int r = part_new();

        part[r] = (struct part){ part[i].base + bytes, rest, i, part[i].next,
                                 0, (char)small, 1 };
        if (part[i].next >= 0)
            part[part[i].next].prev = r;
        part[i].next = r;
        part[i].bytes = bytes;
    }
    part[i].live = 1;
    return i;
}

static void
join(int low, int high)
{
    part[low].bytes += part[high].bytes;
    part[low].next = part[high].next;
    if (part[low].next >= 0)
        part[part[low].next].prev = low;
    part[high].used = 0;
    spare[spare_count++] = high;
}

void
caching_free(int i)
{
    part[i].live = 0;
    if (part[i].next >= 0 && !part[part[i].next].live)
        join(i, part[i].next);
    if (part[i].prev >= 0 && !part[part[i].prev].live)
        join(part[i].prev, i);
}

size_t
caching_peak(void)
{
    return reserved;
}
