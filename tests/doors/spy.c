/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "tests/doors/spy.h"

#include "intercept/hook.h"

#include <string.h>

#define EXPORT __attribute__((visibility("default")))

static struct spy spy;
static bool spy_before(const struct dcp_hook_info *info, void *args,
                       CUresult *result);
static void spy_after(const struct dcp_hook_info *info, void *args,
                      CUresult *result);
static const struct dcp_sink sink = {spy_before, spy_after};

static bool
bare_before(const struct dcp_hook_info *info, void *args, CUresult *result)
{
    (void)info;
    (void)args;
    (void)result;
    return false;
}

static void
bare_after(const struct dcp_hook_info *info, void *args, CUresult *result)
{
    (void)info;
    (void)args;
    (void)result;
}

static const struct dcp_sink bare = {bare_before, bare_after};

static const unsigned short sizes[] = {
#define ROW(kind, class, symbol, canon, ptds, args)                            \
    sizeof(struct dcp_args_##symbol),
#include "intercept/hook.def"
#undef ROW
};

EXPORT struct spy *
spy_get(void)
{
    return &spy;
}

EXPORT void
spy_mute(int on)
{
    if (on)
        dcp_hook_mute();
    else
        dcp_hook_unmute();
}

EXPORT void
spy_listen(enum spy_ear ear)
{
    dcp_hook_listen(ear == SPY_EAR ? &sink : ear == SPY_BARE ? &bare : NULL);
}

static bool
spy_before(const struct dcp_hook_info *info, void *args, CUresult *result)
{
    spy.before++;
    if (spy.mode == SPY_COUNT)
        return false;
    spy.symbol = info->symbol;
    spy.canon = dcp_hook_info[info->canon].symbol;
    spy.kind = info->kind;
    spy.ptds = info->ptds;
    memcpy(spy.args, args, sizes[info->id]);
    if (spy.mode == SPY_CALL)
        cuCtxSynchronize(); /* the export: by name, as others would */
    if (spy.mode == SPY_GONE)
        dcp_hook_listen(NULL);
    if (spy.mode == SPY_SWALLOW)
        *result = (CUresult)SPY_RESULT;
    return spy.mode == SPY_SWALLOW;
}

static void
spy_after(const struct dcp_hook_info *info, void *args, CUresult *result)
{
    (void)info;
    (void)args;
    spy.after++;
    if (spy.mode == SPY_COUNT)
        return;
    spy.result = (int)*result;
    if (spy.mode == SPY_CALL)
        cuCtxSynchronize();
    if (spy.mode == SPY_REPLACE)
        *result = (CUresult)SPY_RESULT;
}

static void
at_init(void)
{
    spy.init++;
}

static void
at_init_done(CUresult result)
{
    spy.init_done++;
    if (result == CUDA_SUCCESS)
        dcp_hook_listen(&sink);
}

__attribute__((constructor)) static void
start(void)
{
    dcp_hook_at_init(at_init);
    dcp_hook_at_init_done(at_init_done);
}
