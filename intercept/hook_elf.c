/* SPDX-License-Identifier: Apache-2.0 */
/* Looks into loaded objects without the help of dlsym, which is ours here. It
 * may run inside malloc, before any constructor and before a sanitizer has
 * started: it allocates nothing and calls nobody. */
#include "config.h"

#include "intercept/hook_guard.h"
#include "intercept/hook_private.h"

#include <link.h>

/* The loader's list. Weak: by name the loader is nothing that we link to. */
extern struct r_debug _r_debug __attribute__((weak));

struct object {
    const ElfW(Sym) *symbols;
    const char *strings;
    const uint32_t *hash; /* DT_GNU_HASH */
};

/* The loader has added the base to the addresses in the dynamic section, but
 * not in that of the kernel's object. */
DCP_EARLY static const void *
absolute(const struct link_map *map, ElfW(Addr) value)
{
    return (const void *)(value < map->l_addr ? value + map->l_addr : value);
}

DCP_EARLY static bool
object_open(const struct link_map *map, struct object *object)
{
    const ElfW(Dyn) *dyn = map->l_ld;

    *object = (struct object){0};
    for (; dyn && dyn->d_tag != DT_NULL; dyn++) {
        const void *at = absolute(map, dyn->d_un.d_ptr);

        if (dyn->d_tag == DT_SYMTAB)
            object->symbols = at;
        else if (dyn->d_tag == DT_STRTAB)
            object->strings = at;
        else if (dyn->d_tag == DT_GNU_HASH)
            object->hash = at;
    }
    return object->symbols && object->strings && object->hash;
}

DCP_EARLY static bool
equal(const char *a, const char *b)
{
    for (; *a == *b; a++, b++)
        if (!*a)
            return true;
    return false;
}

/* The hash section: number of buckets, first symbol in it, words of a filter,
 * a shift; then the filter, the buckets, and a hash for every symbol, whose
 * lowest bit ends a bucket. */
DCP_EARLY static const ElfW(Sym) *
object_find(const struct object *object, const char *name)
{
    const uint32_t *table = object->hash;
    const ElfW(Addr) *filter = (const void *)(table + 4);
    const uint32_t *buckets = (const void *)(filter + table[2]);
    const uint32_t *chain = buckets + table[0];
    uint32_t h = 5381;

    for (const char *c = name; *c; c++)
        h = h * 33 + (unsigned char)*c;
    uint32_t i = table[0] ? buckets[h % table[0]] : 0;
    if (i < table[1] || i == 0)
        return NULL;
    for (;; i++) {
        const ElfW(Sym) *symbol = &object->symbols[i];

        if ((chain[i - table[1]] | 1) == (h | 1) && symbol->st_shndx &&
            equal(object->strings + symbol->st_name, name))
            return symbol;
        if (chain[i - table[1]] & 1)
            return NULL;
    }
}

/* Objects that were there at the start are never unloaded, and the C library
 * is one of them: the list needs no lock up to there. */
DCP_EARLY void *
dcp_elf_next(const char *name)
{
    const struct link_map *first = &_r_debug ? _r_debug.r_map : NULL;
    const struct link_map *map = first;
    struct object object;

    while (map && map->l_ld != _DYNAMIC)
        map = map->l_next;
    for (map = map ? map->l_next : first; map; map = map->l_next) {
        if (map->l_ld == _DYNAMIC || !object_open(map, &object))
            continue;
        const ElfW(Sym) *symbol = object_find(&object, name);
        if (symbol && ELF64_ST_TYPE(symbol->st_info) == STT_FUNC)
            return (void *)(map->l_addr + symbol->st_value);
    }
    return NULL;
}

static bool
holds(const struct dl_phdr_info *info, uintptr_t address)
{
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];

        if (p->p_type == PT_LOAD &&
            address - (info->dlpi_addr + p->p_vaddr) < p->p_memsz)
            return true;
    }
    return false;
}

struct range {
    uintptr_t address, low, high;
};

static int
range_visit(struct dl_phdr_info *info, size_t size, void *user)
{
    struct range *range = user;

    (void)size;
    if (!holds(info, range->address))
        return 0;
    range->low = UINTPTR_MAX;
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        uintptr_t low = info->dlpi_addr + p->p_vaddr;

        if (p->p_type != PT_LOAD)
            continue;
        range->low = low < range->low ? low : range->low;
        if (low + p->p_memsz > range->high)
            range->high = low + p->p_memsz;
    }
    return 1;
}

bool
dcp_elf_range(const void *address, uintptr_t *low, uintptr_t *high)
{
    struct range range = {.address = (uintptr_t)address};

    if (!dl_iterate_phdr(range_visit, &range))
        return false;
    *low = range.low;
    *high = range.high;
    return true;
}
