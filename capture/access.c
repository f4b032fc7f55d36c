/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "capture/access.h"

#include "src/arena.h"

#include <stdlib.h>
#include <string.h>

enum { ENOUGH = 2 }; /* sights without a change that make a slot read-only */

struct dcp_access_entry {
    uint32_t kernel, slot;
    uint8_t set;                       /* decided outright */
    uint8_t seen, changed, fresh;      /* of all sights */
    uint8_t alone_seen, alone_changed; /* of those not shared */
    uint8_t used;
};

static uint32_t
hash_of(uint32_t kernel, uint32_t slot)
{
    uint64_t key = (uint64_t)kernel << 32 | slot;

    return (uint32_t)((key * 0x9e3779b97f4a7c15u) >> 32);
}

/* The entry, or the free one where it belongs. The table has a free place. */
static struct dcp_access_entry *
place_of(const struct dcp_access_table *table, uint32_t kernel, uint32_t slot)
{
    uint32_t at = hash_of(kernel, slot);

    for (;; at++) {
        struct dcp_access_entry *e = &table->entries[at & (table->places - 1)];
        if (!e->used || (e->kernel == kernel && e->slot == slot))
            return e;
    }
}

static enum dcp_status
grow(struct dcp_access_table *table)
{
    struct dcp_access_table bigger = *table;

    bigger.places = table->places ? table->places * 2 : 256;
    bigger.entries =
        dcp_arena_alloc(&bigger.arena, bigger.places * sizeof *bigger.entries);
    table->arena = bigger.arena;
    if (!bigger.entries)
        return DCP_NOMEM;
    for (uint32_t i = 0; i < table->places; i++) {
        const struct dcp_access_entry *e = &table->entries[i];
        if (e->used)
            *place_of(&bigger, e->kernel, e->slot) = *e;
    }
    *table = bigger;
    return DCP_OK;
}

static struct dcp_access_entry *
entry_get(struct dcp_access_table *table, uint32_t kernel, uint32_t slot)
{
    if (table->count * 2 >= table->places && grow(table))
        return NULL;
    struct dcp_access_entry *e = place_of(table, kernel, slot);
    if (!e->used) {
        e->used = 1;
        e->kernel = kernel;
        e->slot = slot;
        table->count++;
    }
    return e;
}

static const struct dcp_access_entry *
entry_find(const struct dcp_access_table *table, uint32_t kernel, uint32_t slot)
{
    if (!table || !table->places)
        return NULL;
    const struct dcp_access_entry *e = place_of(table, kernel, slot);
    return e->used ? e : NULL;
}

static void
count_up(uint8_t *counter)
{
    *counter += *counter < UINT8_MAX;
}

enum dcp_status
dcp_access_note(struct dcp_access_table *table, uint32_t kernel, uint32_t slot,
                unsigned sight)
{
    struct dcp_access_entry *e = entry_get(table, kernel, slot);

    if (!e)
        return DCP_NOMEM;
    count_up(&e->seen);
    if (sight & DCP_SIGHT_CHANGED)
        count_up(&e->changed);
    if (sight & DCP_SIGHT_FRESH)
        count_up(&e->fresh);
    if (!(sight & DCP_SIGHT_SHARED)) {
        count_up(&e->alone_seen);
        if (sight & DCP_SIGHT_CHANGED)
            count_up(&e->alone_changed);
    }
    return DCP_OK;
}

enum dcp_status
dcp_access_set(struct dcp_access_table *table, uint32_t kernel, uint32_t slot,
               uint8_t access)
{
    struct dcp_access_entry *e = entry_get(table, kernel, slot);

    if (!e)
        return DCP_NOMEM;
    e->set = access & (DCP_READ | DCP_WRITE);
    return DCP_OK;
}

static uint8_t
decide(const struct dcp_access_entry *e)
{
    uint8_t unknown = DCP_READ | DCP_WRITE | DCP_ASSUMED;

    if (e->set)
        return e->set;
    /* A change seen in a block of two slots says little about either, once
     * launches were seen in which the slot stood alone. */
    bool alone = e->alone_seen >= ENOUGH;
    uint8_t seen = alone ? e->alone_seen : e->seen;
    uint8_t changed = alone ? e->alone_changed : e->changed;
    if (changed == 0)
        return seen >= ENOUGH ? DCP_READ : unknown;
    /* What was undefined before cannot have been read. */
    return e->fresh == e->seen ? DCP_WRITE : DCP_READ | DCP_WRITE;
}

uint8_t
dcp_access_of(const struct dcp_access_table *table, uint32_t kernel,
              uint32_t slot)
{
    const struct dcp_access_entry *e = entry_find(table, kernel, slot);

    return e ? decide(e) : DCP_READ | DCP_WRITE | DCP_ASSUMED;
}

uint32_t
dcp_access_seen(const struct dcp_access_table *table, uint32_t kernel,
                uint32_t slot)
{
    const struct dcp_access_entry *e = entry_find(table, kernel, slot);

    return e ? e->seen : 0;
}

static int
by_slot(const void *a, const void *b)
{
    const struct dcp_access_entry *x = *(void *const *)a;
    const struct dcp_access_entry *y = *(void *const *)b;

    if (x->kernel != y->kernel)
        return x->kernel < y->kernel ? -1 : 1;
    return x->slot < y->slot ? -1 : x->slot > y->slot;
}

enum dcp_status
dcp_access_each(const struct dcp_access_table *table,
                void (*visit)(void *user, uint32_t kernel, uint32_t slot,
                              uint8_t access),
                void *user)
{
    struct dcp_arena arena = {0};
    uint32_t count = 0;
    const struct dcp_access_entry **list =
        dcp_arena_alloc(&arena, (table->count + 1) * sizeof *list);

    if (!list)
        return DCP_NOMEM;
    for (uint32_t i = 0; i < table->places; i++)
        if (table->entries[i].used &&
            !(decide(&table->entries[i]) & DCP_ASSUMED))
            list[count++] = &table->entries[i];
    qsort(list, count, sizeof *list, by_slot);
    for (uint32_t i = 0; i < count; i++)
        visit(user, list[i]->kernel, list[i]->slot, decide(list[i]));
    dcp_arena_release(&arena);
    return DCP_OK;
}

void
dcp_access_release(struct dcp_access_table *table)
{
    dcp_arena_release(&table->arena);
    *table = (struct dcp_access_table){0};
}
