/* SPDX-License-Identifier: Apache-2.0 */
/* Objects behind handles, the lock, and small helpers. */
#include "sim.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

pthread_mutex_t sim_lock = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t sim_done = PTHREAD_COND_INITIALIZER;
_Thread_local struct sim_thread sim_thread;

static struct sim_object **table;
static size_t table_size, table_used;
static uint64_t next_id;

static size_t
slot_of(const void *handle)
{
    uint64_t x = (uint64_t)(uintptr_t)handle >> 4;
    return (size_t)((x * 0x9e3779b97f4a7c15u) >> 20) & (table_size - 1);
}

static void
table_grow(void)
{
    struct sim_object **old = table;
    size_t old_size = table_size;
    table_size = old_size ? old_size * 2 : 1024;
    table = calloc(table_size, sizeof *table);
    for (size_t i = 0; i < old_size; i++) {
        for (struct sim_object *o = old[i], *next; o; o = next) {
            next = o->chain;
            size_t slot = slot_of(o);
            o->chain = table[slot];
            table[slot] = o;
        }
    }
    free(old);
}

void *
sim_object_new(enum sim_kind kind, size_t bytes)
{
    struct sim_object *object = calloc(1, bytes);
    if (object == NULL)
        return NULL;
    if (table_used >= table_size)
        table_grow();
    object->kind = kind;
    object->id = ++next_id;
    size_t slot = slot_of(object);
    object->chain = table[slot];
    table[slot] = object;
    table_used++;
    return object;
}

static void
table_remove(struct sim_object *object)
{
    struct sim_object **link = &table[slot_of(object)];
    while (*link != object)
        link = &(*link)->chain;
    *link = object->chain;
    table_used--;
}

void
sim_object_free(void *at)
{
    table_remove(at);
    free(at);
}

void
sim_object_retire(void *at)
{
    static struct sim_object *retired;
    struct sim_object *object = at;
    table_remove(object);
    object->chain = retired;
    retired = object;
}

int
sim_object_kind(const void *handle)
{
    if (table == NULL || handle == NULL)
        return -1;
    struct sim_object *object = table[slot_of(handle)];
    while (object != NULL && object != handle)
        object = object->chain;
    return object ? (int)object->kind : -1;
}

void *
sim_object_get(const void *handle, enum sim_kind kind)
{
    return sim_object_kind(handle) == (int)kind ? (void *)(uintptr_t)handle
                                                : NULL;
}

void
sim_object_each(enum sim_kind kind, void (*visit)(void *))
{
    size_t count = 0; /* visit may free others: take a list first */
    struct sim_object **list = malloc((table_used + 1) * sizeof *list);
    for (size_t i = 0; i < table_size; i++)
        for (struct sim_object *o = table[i]; o; o = o->chain)
            if (o->kind == kind)
                list[count++] = o;
    for (size_t i = 0; i < count; i++)
        if (sim_object_kind(list[i]) == (int)kind)
            visit(list[i]);
    free(list);
}

uint64_t
sim_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t
sim_env(const char *name, uint64_t fallback)
{
    const char *text = getenv(name);
    if (text == NULL || *text == '\0')
        return fallback;
    char *end;
    uint64_t value = strtoull(text, &end, 0);
    switch (*end) {
    case 'g': case 'G': value <<= 30; break;
    case 'm': case 'M': value <<= 20; break;
    case 'k': case 'K': value <<= 10; break;
    }
    return value;
}

uint64_t
sim_random(void)
{
    static uint64_t state;
    if (state == 0)
        state = sim_env("DCPSIM_JITTER", 1) * 0x9e3779b97f4a7c15u + 1;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}
