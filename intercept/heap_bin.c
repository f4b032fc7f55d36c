/* SPDX-License-Identifier: Apache-2.0 */
/* The front of the heap: free pieces by owner and exact size. One hash table
 * for all; bins are never removed, only emptied. */
#include "config.h"

#include "src/alloc.h"

#include "intercept/heap_core.h"

#include <string.h>
#include <sys/mman.h>

static struct {
    struct dcp_bin **slots;
    size_t mask, count;
} table;

static size_t
slot_of(const struct dcp_owner *owner, size_t bytes)
{
    uint64_t hash = ((uint64_t)(uintptr_t)owner >> 4) ^ (bytes >> 9);

    return (hash * 0x9e3779b97f4a7c15u) >> 40;
}

struct dcp_bin *
dcp_bin_find(struct dcp_owner *owner, size_t bytes)
{
    if (table.slots == NULL)
        return NULL;
    for (size_t i = slot_of(owner, bytes);; i++) {
        struct dcp_bin *bin = table.slots[i & table.mask];

        if (bin == NULL || (bin->bytes == bytes && bin->owner == owner))
            return bin;
    }
}

static void
slot_fill(struct dcp_bin **slots, size_t mask, struct dcp_bin *bin)
{
    size_t i = slot_of(bin->owner, bin->bytes);

    while (slots[i & mask])
        i++;
    slots[i & mask] = bin;
}

static bool
table_grow(void)
{
    size_t count = table.slots ? (table.mask + 1) * 2 : 1024;
    struct dcp_bin **slots = dcp_map(count * sizeof *slots);

    if (slots == NULL)
        return false;
    if (table.slots) {
        for (size_t i = 0; i <= table.mask; i++)
            if (table.slots[i])
                slot_fill(slots, count - 1, table.slots[i]);
        munmap(table.slots, (table.mask + 1) * sizeof *slots);
    }
    table.slots = slots;
    table.mask = count - 1;
    return true;
}

static struct dcp_bin *
bin_new(struct dcp_owner *owner, size_t bytes, enum dcp_heap_kind kind)
{
    /* The table has to keep empty slots: a search ends at one. */
    if ((table.slots == NULL || table.count * 2 > table.mask) &&
        !table_grow() && (table.slots == NULL || table.count >= table.mask))
        return NULL;
    struct dcp_bin *bin = dcp_arena_alloc(&dcp_heap.arena, sizeof *bin);
    if (bin == NULL)
        return NULL;
    *bin = (struct dcp_bin){ .bytes = bytes, .owner = owner, .kind = kind };
    slot_fill(table.slots, table.mask, bin);
    table.count++;
    return bin;
}

void
dcp_bin_push(struct dcp_piece *piece, enum dcp_heap_kind kind)
{
    struct dcp_owner *owner = piece->owner;
    struct dcp_bin *bin = piece->bin;

    if (bin == NULL || bin->owner != owner) {
        bin = dcp_bin_find(owner, piece->bytes);
        if (bin == NULL)
            bin = bin_new(owner, piece->bytes, kind);
        if (bin == NULL || bin->kind != kind) {
            dcp_piece_shelve(piece);
            return;
        }
        piece->bin = bin;
    }
    piece->state = DCP_PIECE_BIN;
    piece->right = bin->head;
    bin->head = piece;
    if (!bin->listed) {
        bin->listed = true;
        bin->next = owner->bins[kind];
        owner->bins[kind] = bin;
    }
}

void
dcp_bin_flush(struct dcp_owner *owner, enum dcp_heap_kind kind)
{
    struct dcp_bin *bin = owner->bins[kind];

    owner->bins[kind] = NULL;
    for (; bin; bin = bin->next) {
        struct dcp_piece *piece = bin->head;

        bin->listed = false;
        bin->head = NULL;
        while (piece) {
            struct dcp_piece *next = piece->right;

            dcp_piece_shelve(piece);
            piece = next;
        }
    }
}

void
dcp_bin_flush_all(void)
{
    for (struct dcp_owner *owner = dcp_heap.owners; owner; owner = owner->next)
        for (int kind = 0; kind < DCP_HEAP_KINDS; kind++)
            dcp_bin_flush(owner, kind);
}

void
dcp_bin_forget(void)
{
    if (table.slots)
        munmap(table.slots, (table.mask + 1) * sizeof *table.slots);
    memset(&table, 0, sizeof table);
}
