/* SPDX-License-Identifier: Apache-2.0 */
/* Looks into loaded objects without the help of dlsym, which is ours here. It
 * may run inside malloc and before any constructor: no allocation, no state. */
#include "config.h"

#include "intercept/hook_private.h"

#include <elf.h>
#include <link.h>
#include <string.h>

struct object {
    const ElfW(Sym) *symbols;
    const char *strings;
    const uint32_t *hash; /* DT_GNU_HASH */
};

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

/* The loader has added the base to the addresses in the dynamic section, but
 * not in that of the kernel's object. */
static const void *
absolute(const struct dl_phdr_info *info, ElfW(Addr) value)
{
    return (const void *)(value < info->dlpi_addr ? value + info->dlpi_addr
                                                  : value);
}

static bool
object_open(const struct dl_phdr_info *info, struct object *object)
{
    const ElfW(Dyn) *dyn = NULL;

    *object = (struct object){0};
    for (unsigned i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
            dyn = (const void *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
    for (; dyn && dyn->d_tag != DT_NULL; dyn++) {
        const void *at = absolute(info, dyn->d_un.d_ptr);

        if (dyn->d_tag == DT_SYMTAB)
            object->symbols = at;
        else if (dyn->d_tag == DT_STRTAB)
            object->strings = at;
        else if (dyn->d_tag == DT_GNU_HASH)
            object->hash = at;
    }
    return object->symbols && object->strings && object->hash;
}

/* The hash section: number of buckets, first symbol in it, words of a filter,
 * a shift; then the filter, the buckets, and a hash for every symbol, whose
 * lowest bit ends a bucket. */
static const ElfW(Sym) *
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
            strcmp(object->strings + symbol->st_name, name) == 0)
            return symbol;
        if (chain[i - table[1]] & 1)
            return NULL;
    }
}

struct search {
    const char *name;
    bool past; /* our own object has been seen */
    void *found;
};

static int
search_visit(struct dl_phdr_info *info, size_t size, void *user)
{
    struct search *search = user;
    struct object object;

    (void)size;
    if (!search->past) {
        search->past = holds(info, (uintptr_t)&dcp_hook_info);
        return 0;
    }
    if (!object_open(info, &object))
        return 0;
    const ElfW(Sym) *symbol = object_find(&object, search->name);
    if (!symbol || ELF64_ST_TYPE(symbol->st_info) != STT_FUNC)
        return 0;
    search->found = (void *)(info->dlpi_addr + symbol->st_value);
    return 1;
}

void *
dcp_elf_next(const char *name)
{
    struct search search = {.name = name};

    dl_iterate_phdr(search_visit, &search);
    return search.found;
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
