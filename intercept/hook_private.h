/* SPDX-License-Identifier: Apache-2.0 */
/* What the hook_*.c files tell each other. */
#ifndef DCP_INTERCEPT_HOOK_PRIVATE_H
#define DCP_INTERCEPT_HOOK_PRIVATE_H

#include "intercept/hook.h"

/* hook_table.c */
/* The exported row with exactly this name; DCP_HOOK_COUNT for none. No lock,
 * no allocation. */
unsigned dcp_hook_by_name(const char *name);

/* hook_elf.c */
/* The function `name` in the first object loaded after this library (as
 * dlsym(RTLD_NEXT) would find it from here, without asking dlsym); NULL when
 * there is none. */
void *dcp_elf_next(const char *name);

/* The addresses [low, high) of the object that `address` lies in. False when
 * there is none. */
bool dcp_elf_range(const void *address, uintptr_t *low, uintptr_t *high);

/* hook_real.c */
struct dcp_dl {
    void *(*sym)(void *handle, const char *name);
    void *(*vsym)(void *handle, const char *name, const char *version);
};

/* The real dlsym and dlvsym. */
const struct dcp_dl *dcp_dl(void);

/* As dcp_hook_resolve, but loads the driver only when `load`. */
int dcp_hook_find(bool load);

/* The original of a row by number. */
void *dcp_hook_original(unsigned row);

/* The exported row whose original is `address`. Rows may share an address:
 * `name` is what the program asked for; of several the one that fits best. A
 * row that does not fit the name is none: the driver may have folded functions
 * with different arguments into one. DCP_HOOK_COUNT for none. */
unsigned dcp_hook_by_address(const void *address, const char *name);

/* True when the code at `address` is the driver's. */
bool dcp_hook_is_driver(const void *address);

/* hook_entry.c: the exported bodies; NULL for PASS rows. */
extern void *const dcp_hook_body[DCP_HOOK_COUNT];

/* hook_sink.c */
/* Makes every hook of this process a pass-through, for good. */
void dcp_hook_off(void);

/* A set-user-id program: nothing of ours may run in it. */
bool dcp_hook_is_secure(void);

#endif
