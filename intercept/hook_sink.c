/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "intercept/hook_guard.h"
#include "intercept/hook_private.h"

#include <sys/auxv.h>

struct dcp_hook_state dcp_hook_state;
__thread unsigned dcp_hook_depth __attribute__((tls_model("initial-exec")));

void
dcp_hook_listen(const struct dcp_sink *sink)
{
    if (!atomic_load(&dcp_hook_state.off) && !dcp_hook_is_secure())
        atomic_store(&dcp_hook_state.sink, sink);
}

void
dcp_hook_own(bool on)
{
    if (!atomic_load(&dcp_hook_state.off) && !dcp_hook_is_secure())
        atomic_store(&dcp_hook_state.own, on);
}

void
dcp_hook_mute(void)
{
    dcp_hook_depth += DCP_HOOK_MUTE;
}

void
dcp_hook_unmute(void)
{
    dcp_hook_depth -= DCP_HOOK_MUTE;
}

void
dcp_hook_off(void)
{
    atomic_store(&dcp_hook_state.off, true);
    atomic_store(&dcp_hook_state.sink, NULL);
    atomic_store(&dcp_hook_state.own, false);
}

bool
dcp_hook_is_secure(void)
{
    return getauxval(AT_SECURE) != 0;
}
