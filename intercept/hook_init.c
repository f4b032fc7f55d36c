/* SPDX-License-Identifier: Apache-2.0 */
/* The program's first cuInit: where the library wakes up. */
#include "config.h"

#include "src/lock.h"

#include "intercept/hook_guard.h"
#include "intercept/hook_private.h"

#include <pthread.h>

static struct {
    struct dcp_lock lock;
    atomic_bool done; /* a cuInit has succeeded */
    atomic_bool fork_handled;
    bool begun;
    void (*at_init)(void);
    void (*at_init_done)(CUresult);
} init;

void
dcp_hook_at_init(void (*fn)(void))
{
    init.at_init = fn;
}

void
dcp_hook_at_init_done(void (*fn)(CUresult))
{
    init.at_init_done = fn;
}

/* CUDA does not work in a child of a process that used it: the driver itself
 * says so to the program. */
static void
in_child(void)
{
    init.lock = (struct dcp_lock){0};
    if (atomic_load(&init.done))
        dcp_hook_off();
}

static CUresult
first(CUresult(CUDAAPI *real)(unsigned), unsigned flags)
{
    if (dcp_hook_is_secure())
        return real(flags);
    if (!atomic_exchange(&init.fork_handled, true))
        pthread_atfork(NULL, NULL, in_child);
    dcp_lock_take(&init.lock);
    dcp_hook_depth++;
    if (!init.begun && init.at_init)
        init.at_init();
    init.begun = true;
    CUresult cu = real(flags);
    if (!atomic_load(&init.done) && init.at_init_done)
        init.at_init_done(cu);
    if (cu == CUDA_SUCCESS)
        atomic_store(&init.done, true);
    dcp_hook_depth--;
    dcp_lock_give(&init.lock);
    return cu;
}

/* Without a driver: what a machine without a GPU says. */
DCP_BODY CUresult CUDAAPI
dcp_body_cuInit(unsigned Flags)
{
    DCP_FIND_REAL(cuInit, CUDA_ERROR_NO_DEVICE);

    if (atomic_load_explicit(&init.done, memory_order_acquire) ||
        dcp_hook_depth)
        return real(Flags);
    return first(real, Flags);
}

DCP_EXPORT_BODY(cuInit);
