/* SPDX-License-Identifier: Apache-2.0 */
/* The exported bodies of WATCH and OWN rows. With nobody listening they are a
 * test and a jump; the rest is kept in functions of its own, so that this path
 * needs no stack frame. */
#include "config.h"

#include "intercept/hook_guard.h"
#include "intercept/hook_private.h"

#define BODY(symbol, idle, ...)                                                \
    DCP_BODY CUresult CUDAAPI dcp_body_##symbol(DCP_PARAMS(__VA_ARGS__))       \
    {                                                                          \
        __typeof__(dcp_real.symbol) real =                                     \
            __atomic_load_n(&dcp_real.symbol, __ATOMIC_RELAXED);               \
                                                                               \
        if (DCP_LIKELY((idle) && real))                                        \
            return real(DCP_NAMES(__VA_ARGS__));                               \
        return call_##symbol(DCP_NAMES(__VA_ARGS__));                          \
    }

/* Between the two ends of a call the guard is set. */
#define BODY_WATCH(symbol, canon, ...)                                         \
    static __attribute__((noinline)) CUresult call_##symbol(                   \
        DCP_PARAMS(__VA_ARGS__))                                               \
    {                                                                          \
        const struct dcp_sink *sink = dcp_hook_sink();                         \
        DCP_FIND_REAL(symbol, CUDA_ERROR_NOT_SUPPORTED);                       \
                                                                               \
        if (!sink)                                                             \
            return real(DCP_NAMES(__VA_ARGS__));                               \
        const struct dcp_hook_info *info = &dcp_hook_info[DCP_HOOK_##symbol];  \
        struct dcp_args_##canon box = {DCP_NAMES(__VA_ARGS__)};                \
        CUresult result = CUDA_SUCCESS;                                        \
        dcp_hook_depth++;                                                      \
        if (!sink->before(info, &box, &result)) {                              \
            result = real(DCP_UNPACK(box, __VA_ARGS__));                       \
            sink->after(info, &box, &result);                                  \
        }                                                                      \
        dcp_hook_depth--;                                                      \
        return result;                                                         \
    }                                                                          \
    BODY(symbol, !dcp_hook_sink_any(), __VA_ARGS__)

#define BODY_OWN(symbol, canon, ...)                                           \
    static __attribute__((noinline)) CUresult call_##symbol(                   \
        DCP_PARAMS(__VA_ARGS__))                                               \
    {                                                                          \
        const struct dcp_sink *sink = dcp_hook_sink();                         \
        bool own = dcp_hook_owns();                                            \
        DCP_FIND_REAL(symbol, CUDA_ERROR_NOT_SUPPORTED);                       \
                                                                               \
        if (!sink && !own)                                                     \
            return real(DCP_NAMES(__VA_ARGS__));                               \
        const struct dcp_hook_info *info = &dcp_hook_info[DCP_HOOK_##symbol];  \
        struct dcp_args_##canon box = {DCP_NAMES(__VA_ARGS__)};                \
        CUresult result = CUDA_SUCCESS;                                        \
        dcp_hook_depth++;                                                      \
        if (!sink || !sink->before(info, &box, &result)) {                     \
            result = own ? dcp_own_##canon(info, &box)                         \
                         : real(DCP_UNPACK(box, __VA_ARGS__));                 \
            if (sink)                                                          \
                sink->after(info, &box, &result);                              \
        }                                                                      \
        dcp_hook_depth--;                                                      \
        return result;                                                         \
    }                                                                          \
    BODY(symbol, !dcp_hook_sink_any() && !dcp_hook_owns_any(), __VA_ARGS__)

#define BODY_PASS(symbol, canon, ...)
#define BODY_DOOR(symbol, canon, ...)                                          \
    CUresult CUDAAPI dcp_body_##symbol(DCP_PARAMS(__VA_ARGS__));

#define ROW(kind, class, symbol, canon, ptds, args)                            \
    BODY_##kind(symbol, canon, args)
#include "intercept/hook.def"
#undef ROW

#define EXPORT_PASS(symbol)
#define EXPORT_DOOR(symbol)
#define EXPORT_WATCH(symbol) DCP_EXPORT_BODY(symbol);
#define EXPORT_OWN(symbol) DCP_EXPORT_BODY(symbol);
#define ROW(kind, class, symbol, canon, ptds, args) EXPORT_##kind(symbol)
#include "intercept/hook.def"
#undef ROW

#define ADDRESS_PASS(symbol) NULL
#define ADDRESS_WATCH(symbol) (void *)dcp_body_##symbol
#define ADDRESS_OWN(symbol) (void *)dcp_body_##symbol
#define ADDRESS_DOOR(symbol) (void *)dcp_body_##symbol
void *const dcp_hook_body[DCP_HOOK_COUNT] = {
#define ROW(kind, class, symbol, canon, ptds, args)                            \
    [DCP_HOOK_##symbol] = ADDRESS_##kind(symbol),
#include "intercept/hook.def"
#undef ROW
};
