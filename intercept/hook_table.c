/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "intercept/hook_guard.h"
#include "intercept/hook_private.h"

#include <string.h>

/* cuda.h checks the rows, PASS rows too. */
#define ROW(kind, class, symbol, canon, ptds, args)                            \
    extern CUresult CUDAAPI symbol(DCP_PARAMS(args));                          \
    _Static_assert(                                                            \
        __builtin_types_compatible_p(__typeof__(dcp_real.symbol),              \
                                     __typeof__(dcp_real.canon)),              \
        #symbol " and its canon have different arguments");
#include "intercept/hook.def"
#undef ROW

const struct dcp_hook_info dcp_hook_info[DCP_HOOK_COUNT] = {
#define ROW(kind, class, symbol, canon, ptds, args)                            \
    {#symbol,          DCP_HOOK_##symbol, DCP_HOOK_##canon,                    \
     DCP_HOOK_##kind,  DCP_CLASS_##class, ptds},
#include "intercept/hook.def"
#undef ROW
};

enum { SLOTS = 2048 };
_Static_assert(DCP_HOOK_COUNT < SLOTS / 2, "the name table is too full");

/* Row number plus one; 0: free. Two threads may fill it at once: both put the
 * same rows in the same order, so both write the same. */
static atomic_ushort slots[SLOTS];
static atomic_bool filled;

static unsigned
hash(const char *name)
{
    unsigned h = 2166136261u;

    for (; *name; name++)
        h = (h ^ (unsigned char)*name) * 16777619u;
    return (h ^ h >> 16) % SLOTS;
}

static void
fill(void)
{
    for (unsigned row = 0; row < DCP_HOOK_COUNT; row++) {
        unsigned at = hash(dcp_hook_info[row].symbol);

        if (dcp_hook_info[row].kind == DCP_HOOK_PASS)
            continue;
        while (slots[at] && slots[at] != row + 1)
            at = (at + 1) % SLOTS;
        slots[at] = (unsigned short)(row + 1);
    }
    atomic_store_explicit(&filled, true, memory_order_release);
}

DCP_EARLY unsigned
dcp_hook_by_name(const char *name)
{
    /* dlsym is asked for names of all sorts. */
    if (name[0] != 'c' || name[1] != 'u' || name[2] < 'A' || name[2] > 'Z')
        return DCP_HOOK_COUNT;
    if (!atomic_load_explicit(&filled, memory_order_acquire))
        fill();
    for (unsigned at = hash(name); slots[at]; at = (at + 1) % SLOTS)
        if (strcmp(dcp_hook_info[slots[at] - 1].symbol, name) == 0)
            return slots[at] - 1u;
    return DCP_HOOK_COUNT;
}
