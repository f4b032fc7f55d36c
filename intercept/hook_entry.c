/* SPDX-License-Identifier: Apache-2.0 */
/* The exported bodies of WATCH and OWN rows. A body is a few instructions: as
 * long as nobody listens it jumps to the original and leaves every argument
 * where it is. Otherwise it jumps to dcp_call_<symbol>, which is C. */
#include "config.h"

#include "intercept/hook_guard.h"
#include "intercept/hook_private.h"

#include <stddef.h>

/* Between the two ends of a call the guard is set. */
#define CALL_WATCH(symbol, canon, ...)                                         \
    DCP_BODY CUresult CUDAAPI dcp_call_##symbol(DCP_PARAMS(__VA_ARGS__));      \
    CUresult CUDAAPI dcp_call_##symbol(DCP_PARAMS(__VA_ARGS__))                \
    {                                                                          \
        const struct dcp_sink *sink = dcp_hook_sink();                         \
        DCP_FIND_REAL(symbol, CUDA_ERROR_NOT_SUPPORTED);                       \
                                                                               \
        if (DCP_UNLIKELY(!sink))                                               \
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
    }

#define CALL_OWN(symbol, canon, ...)                                           \
    DCP_BODY CUresult CUDAAPI dcp_call_##symbol(DCP_PARAMS(__VA_ARGS__));      \
    CUresult CUDAAPI dcp_call_##symbol(DCP_PARAMS(__VA_ARGS__))                \
    {                                                                          \
        const struct dcp_sink *sink = dcp_hook_sink();                         \
        bool own = dcp_hook_owns();                                            \
        DCP_FIND_REAL(symbol, CUDA_ERROR_NOT_SUPPORTED);                       \
                                                                               \
        if (DCP_UNLIKELY(!sink && !own))                                       \
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
    }

#define CALL_PASS(symbol, canon, ...)
#define CALL_DOOR(symbol, canon, ...)
#define ROW(kind, class, symbol, canon, ptds, args)                            \
    CALL_##kind(symbol, canon, args)
#include "intercept/hook.def"
#undef ROW

_Static_assert(offsetof(struct dcp_hook_state, sink) == 0 &&
                   offsetof(struct dcp_hook_state, own) == 8 &&
                   sizeof(bool) == 1,
               "the bodies know where these are");

/* clang-format off */
#if defined(__x86_64__)
#define LABELS(symbol)                                                         \
    ".p2align 4\n"                                                             \
    ".globl " symbol ", dcp_body_" symbol "\n"                                 \
    ".hidden dcp_body_" symbol "\n"                                            \
    ".type " symbol ", @function\n"                                            \
    ".type dcp_body_" symbol ", @function\n"                                   \
    symbol ":\n"                                                               \
    "dcp_body_" symbol ":\n"                                                   \
    "    endbr64\n"
#define IF_SINK(symbol)                                                        \
    "    cmpq $0, dcp_hook_state(%rip)\n"                                      \
    "    jne dcp_call_" symbol "\n"
#define IF_OWN(symbol)                                                         \
    "    cmpb $0, 8 + dcp_hook_state(%rip)\n"                                  \
    "    jne dcp_call_" symbol "\n"
#define GO(symbol)                                                             \
    "    movq dcp_real + 8 * dcp_row(%rip), %r11\n"                            \
    "    testq %r11, %r11\n"                                                   \
    "    je dcp_call_" symbol "\n"                                             \
    "    jmp *%r11\n"                                                          \
    ".size " symbol ", . - " symbol "\n"
#elif defined(__aarch64__)
#define LABELS(symbol)                                                         \
    ".p2align 4\n"                                                             \
    ".globl " symbol ", dcp_body_" symbol "\n"                                 \
    ".hidden dcp_body_" symbol "\n"                                            \
    ".type " symbol ", %function\n"                                            \
    ".type dcp_body_" symbol ", %function\n"                                   \
    symbol ":\n"                                                               \
    "dcp_body_" symbol ":\n"                                                   \
    "    hint #34\n"
#define IF_SINK(symbol)                                                        \
    "    adrp x16, dcp_hook_state\n"                                           \
    "    ldr x17, [x16, #:lo12:dcp_hook_state]\n"                              \
    "    cbz x17, 1f\n"                                                        \
    "    b dcp_call_" symbol "\n"                                              \
    "1:\n"
#define IF_OWN(symbol)                                                         \
    "    add x16, x16, #:lo12:dcp_hook_state\n"                                \
    "    ldrb w17, [x16, #8]\n"                                                \
    "    cbz w17, 1f\n"                                                        \
    "    b dcp_call_" symbol "\n"                                              \
    "1:\n"
#define GO(symbol)                                                             \
    "    adrp x16, dcp_real + 8 * dcp_row\n"                                   \
    "    add x16, x16, #:lo12:dcp_real + 8 * dcp_row\n"                        \
    "    ldr x16, [x16]\n"                                                     \
    "    cbz x16, 1f\n"                                                        \
    "    br x16\n"                                                             \
    "1:  b dcp_call_" symbol "\n"                                              \
    ".size " symbol ", . - " symbol "\n"
#else
#error "the bodies are in assembler and know nothing of this processor"
#endif

/* One statement, so that the rows are counted in their order. */
#define BODY_PASS(symbol)
#define BODY_DOOR(symbol)
#define BODY_WATCH(symbol) LABELS(symbol) IF_SINK(symbol) GO(symbol)
#define BODY_OWN(symbol)                                                       \
    LABELS(symbol) IF_SINK(symbol) IF_OWN(symbol) GO(symbol)
__asm__(".text\n"
        ".set dcp_row, 0\n"
#define ROW(kind, class, symbol, canon, ptds, args)                            \
        BODY_##kind(#symbol) ".set dcp_row, dcp_row + 1\n"
#include "intercept/hook.def"
#undef ROW
);
/* clang-format on */

#define ADDRESS_PASS(symbol) NULL
#define ADDRESS_WATCH(symbol) (void *)dcp_body_##symbol
#define ADDRESS_OWN(symbol) (void *)dcp_body_##symbol
#define ADDRESS_DOOR(symbol) (void *)dcp_body_##symbol
#define ROW(kind, class, symbol, canon, ptds, args)                            \
    extern DCP_BODY CUresult CUDAAPI dcp_body_##symbol(DCP_PARAMS(args));
#include "intercept/hook.def"
#undef ROW
void *const dcp_hook_body[DCP_HOOK_COUNT] = {
#define ROW(kind, class, symbol, canon, ptds, args)                            \
    [DCP_HOOK_##symbol] = ADDRESS_##kind(symbol),
#include "intercept/hook.def"
#undef ROW
};
