/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "src/stack_name.h"

#include <elf.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

struct search {
    uintptr_t at; /* inside the call, not behind it */
    bool found, own;
    uintptr_t base, symbol;
    char *text; /* the name, without the offset */
    size_t room;
};

struct dynamic {
    const ElfW(Sym) * symbols;
    const char *strings;
    size_t count, strings_bytes;
};

static bool
covers(const struct dl_phdr_info *info, uintptr_t at)
{
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        uintptr_t from = info->dlpi_addr + p->p_vaddr;

        if (p->p_type == PT_LOAD && at >= from && at - from < p->p_memsz)
            return true;
    }
    return false;
}

/* The table has no length; its hash table tells it. */
static size_t
count_by_hash(const uint32_t *table)
{
    uint32_t buckets = table[0], first = table[1], words = table[2], last = 0;
    const uint32_t *bucket = table + 4 + words * (sizeof(ElfW(Addr)) / 4);
    const uint32_t *chain = bucket + buckets;

    for (uint32_t i = 0; i < buckets; i++)
        if (bucket[i] > last)
            last = bucket[i];
    if (last < first)
        return first;
    while (!(chain[last - first] & 1))
        last++;
    return last + 1;
}

/* The loader adds the base to these addresses, but not in the vdso. */
static const void *
address(const struct dl_phdr_info *info, ElfW(Addr) value)
{
    return (const void *)(value < info->dlpi_addr ? info->dlpi_addr + value
                                                  : value);
}

static void
read_dynamic(const struct dl_phdr_info *info, struct dynamic *d)
{
    const ElfW(Dyn) *entry = NULL;

    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
            entry =
                (const void *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
    for (; entry && entry->d_tag != DT_NULL; entry++) {
        const void *at = address(info, entry->d_un.d_ptr);

        if (entry->d_tag == DT_SYMTAB)
            d->symbols = at;
        else if (entry->d_tag == DT_STRTAB)
            d->strings = at;
        else if (entry->d_tag == DT_STRSZ)
            d->strings_bytes = entry->d_un.d_val;
        else if (entry->d_tag == DT_GNU_HASH)
            d->count = count_by_hash(at);
        else if (entry->d_tag == DT_HASH && d->count == 0)
            d->count = ((const uint32_t *)at)[1];
    }
}

/* The function that holds the address; false when none is known. */
static bool
name_symbol(struct search *s, const struct dl_phdr_info *info)
{
    struct dynamic d = {0};
    uintptr_t at = s->at - info->dlpi_addr;

    read_dynamic(info, &d);
    for (size_t i = 1; d.symbols && d.strings && i < d.count; i++) {
        const ElfW(Sym) *symbol = &d.symbols[i];

        if (ELF64_ST_TYPE(symbol->st_info) != STT_FUNC ||
            symbol->st_shndx == SHN_UNDEF || at < symbol->st_value ||
            at - symbol->st_value >= symbol->st_size ||
            symbol->st_name >= d.strings_bytes)
            continue;
        snprintf(s->text, s->room, "%s", d.strings + symbol->st_name);
        s->symbol = info->dlpi_addr + symbol->st_value;
        return true;
    }
    return false;
}

static int
try_object(struct dl_phdr_info *info, size_t size, void *user)
{
    struct search *s = user;

    (void)size;
    if (!covers(info, s->at))
        return 0;
    const char *file = strrchr(info->dlpi_name, '/');
    file = file ? file + 1 : info->dlpi_name;
    s->found = true;
    s->own = *file && covers(info, (uintptr_t)dcp_stack_name);
    if (!name_symbol(s, info)) {
        s->symbol = info->dlpi_addr;
        snprintf(s->text, s->room, "%s", *file ? file : "program");
    }
    return 1;
}

bool
dcp_stack_name(const void *frame, char *text, size_t room)
{
    char tail[32];
    struct search s = {.at = (uintptr_t)frame - 1, .text = text, .room = room};

    dl_iterate_phdr(try_object, &s);
    if (!s.found) {
        snprintf(text, room, "%p", frame);
        return false;
    }
    snprintf(tail, sizeof tail, "+0x%zx",
             (size_t)((uintptr_t)frame - s.symbol));
    size_t length = strlen(text), more = strlen(tail) + 1;
    if (length + more > room)
        length = room > more ? room - more : 0;
    if (length + more <= room)
        memcpy(text + length, tail, more);
    return s.own;
}
