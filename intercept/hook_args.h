/* SPDX-License-Identifier: Apache-2.0 */
/* What hook.h promises about arguments and originals, made from the rows. Not
 * to be included by anything but hook.h. */
#ifndef DCP_INTERCEPT_HOOK_ARGS_H
#define DCP_INTERCEPT_HOOK_ARGS_H

#include "intercept/hook_arity.h"
#include "intercept/hook_cuda.h"

struct dcp_hook_info;

#define ROW(kind, class, symbol, canon, ptds, args)                            \
    struct dcp_args_##symbol {                                                 \
        DCP_FIELDS(args)                                                       \
    };
#include "intercept/hook.def"
#undef ROW

struct dcp_real {
#define ROW(kind, class, symbol, canon, ptds, args)                            \
    CUresult(CUDAAPI *symbol)(DCP_PARAMS(args));
#include "intercept/hook.def"
#undef ROW
};

/* The OWN bodies (heap_entry.c, heap_pool.c, visible.c): in the place of the
 * original of every row with that canon. Run under the recursion guard. */
#define DCP_OWN_PASS(canon)
#define DCP_OWN_WATCH(canon)
#define DCP_OWN_DOOR(canon)
#define DCP_OWN_OWN(canon)                                                     \
    CUresult dcp_own_##canon(const struct dcp_hook_info *info,                 \
                             struct dcp_args_##canon *args);
#define ROW(kind, class, symbol, canon, ptds, args) DCP_OWN_##kind(canon)
#include "intercept/hook.def"
#undef ROW

#endif
