/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the driver and its functions. Nothing here takes a lock: a thread may
 * come with the loader's lock held (dlsym in a constructor) while another waits
 * for that lock. Threads that resolve at the same time write the same. */
#include "config.h"

#include "intercept/hook_guard.h"
#include "intercept/hook_private.h"

#include <dlfcn.h>
#include <string.h>

struct dcp_real dcp_real;

/* dcp_real as an array. */
typedef void *__attribute__((may_alias)) any_pointer;
_Static_assert(sizeof dcp_real == DCP_HOOK_COUNT * sizeof(any_pointer),
               "one pointer a row");

enum { SLOTS = 2048 };
_Static_assert(DCP_HOOK_COUNT < SLOTS / 2, "the address table is too full");

static atomic_ushort slots[SLOTS]; /* row number plus one; 0: free */
static atomic_bool ready;
static _Atomic uintptr_t driver_low, driver_high;
static __thread bool busy __attribute__((tls_model("initial-exec")));

DCP_EARLY const struct dcp_dl *
dcp_dl(void)
{
    static struct dcp_dl dl;
    static atomic_bool found;

    if (!atomic_load_explicit(&found, memory_order_acquire)) {
        __atomic_store_n((any_pointer *)&dl.sym, dcp_elf_next("dlsym"),
                         __ATOMIC_RELAXED);
        __atomic_store_n((any_pointer *)&dl.vsym, dcp_elf_next("dlvsym"),
                         __ATOMIC_RELAXED);
        atomic_store_explicit(&found, true, memory_order_release);
    }
    return &dl;
}

void *
dcp_hook_original(unsigned row)
{
    return __atomic_load_n((any_pointer *)&dcp_real + row, __ATOMIC_RELAXED);
}

static unsigned
hash(const void *address)
{
    uint64_t h = (uint64_t)(uintptr_t)address * 0x9e3779b97f4a7c15u;

    return (unsigned)(h >> 40) % SLOTS;
}

static void
slots_add(unsigned row)
{
    unsigned at = hash(dcp_hook_original(row));

    if (dcp_hook_info[row].kind == DCP_HOOK_PASS || !dcp_hook_original(row))
        return;
    while (slots[at] && slots[at] != row + 1)
        at = (at + 1) % SLOTS;
    slots[at] = (unsigned short)(row + 1);
}

static void
fill(void *library)
{
    const struct dcp_dl *dl = dcp_dl();
    uintptr_t low, high;

    for (unsigned row = 0; row < DCP_HOOK_COUNT; row++)
        __atomic_store_n((any_pointer *)&dcp_real + row,
                         dl->sym(library, dcp_hook_info[row].symbol),
                         __ATOMIC_RELAXED);
    for (unsigned row = 0; row < DCP_HOOK_COUNT; row++)
        slots_add(row);
    if (dcp_elf_range(dcp_hook_original(DCP_HOOK_cuInit), &low, &high)) {
        driver_low = low;
        driver_high = high;
    }
    /* What an older driver lacks must not be the program's next dlerror. */
    dlerror();
    atomic_store_explicit(&ready, true, memory_order_release);
}

int
dcp_hook_find(bool load)
{
    const int mode = RTLD_LAZY | RTLD_LOCAL | RTLD_NODELETE;

    if (atomic_load_explicit(&ready, memory_order_acquire))
        return 0;
    /* Busy: the driver's own constructors look something up. */
    if (busy || !dcp_dl()->sym)
        return -1;
    busy = true;
    void *library = dlopen("libcuda.so.1", mode | RTLD_NOLOAD);
    if (!library && load)
        library = dlopen("libcuda.so.1", mode);
    if (library && dcp_dl()->sym(library, "cuInit"))
        fill(library);
    busy = false;
    return atomic_load_explicit(&ready, memory_order_acquire) ? 0 : -1;
}

int
dcp_hook_resolve(void)
{
    return dcp_hook_find(true);
}

/* The length of a symbol without its version and stream form. */
static size_t
stem(const char *symbol)
{
    size_t n = strlen(symbol);

    if (n > 5 && (strcmp(symbol + n - 5, "_ptsz") == 0 ||
                  strcmp(symbol + n - 5, "_ptds") == 0))
        n -= 5;
    if (n > 3 && symbol[n - 3] == '_' && symbol[n - 2] == 'v')
        n -= 3;
    return n;
}

/* How well a row answers the question for `name`; 0: not at all. The driver
 * answers some names with a function of a longer one (cuGraphInstantiate). */
static int
fit(const char *symbol, const char *name)
{
    size_t want = stem(name);

    if (strcmp(symbol, name) == 0)
        return 3;
    if (strncmp(symbol, name, want) != 0)
        return 0;
    return stem(symbol) == want ? 2 : 1;
}

unsigned
dcp_hook_by_address(const void *address, const char *name)
{
    unsigned best = DCP_HOOK_COUNT;
    int best_fit = 0;

    if (!atomic_load_explicit(&ready, memory_order_acquire))
        return best;
    for (unsigned at = hash(address); slots[at]; at = (at + 1) % SLOTS) {
        unsigned row = slots[at] - 1u;

        if (dcp_hook_original(row) != address)
            continue;
        int now = fit(dcp_hook_info[row].symbol, name);
        if (now > best_fit) {
            best = row;
            best_fit = now;
        }
    }
    return best;
}

bool
dcp_hook_is_driver(const void *address)
{
    return (uintptr_t)address - driver_low < driver_high - driver_low;
}
