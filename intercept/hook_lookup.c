/* SPDX-License-Identifier: Apache-2.0 */
/* The doors through which programs get driver functions by name: dlsym and
 * dlvsym, which this library exports, and cuGetProcAddress. */
#include "config.h"

#include "intercept/hook_guard.h"
#include "intercept/hook_private.h"

#include <dlfcn.h>

/* What a door does: hands out `value`, or jumps to `target` as if it had never
 * been there, so that the real function sees the program as its caller
 * (RTLD_NEXT and RTLD_DEFAULT mean something else for each caller). */
struct dcp_answer {
    void *value;
    void *target; /* NULL: there is an answer */
};

struct dcp_answer dcp_door_dlsym(void *handle, const char *name,
                                 const void *caller);
struct dcp_answer dcp_door_dlvsym(void *handle, const char *name,
                                  const char *version, const void *caller);

/* The row that a lookup may be answered with; DCP_HOOK_COUNT for none. Lookups
 * relative to the caller and those of the driver itself are not ours. */
DCP_EARLY static unsigned
row_of(void *handle, const char *name, const void *caller)
{
    if (!name || handle == RTLD_NEXT)
        return DCP_HOOK_COUNT;
    unsigned row = dcp_hook_by_name(name);
    if (row == DCP_HOOK_COUNT || dcp_hook_is_secure())
        return DCP_HOOK_COUNT;
    dcp_hook_find(false);
    return dcp_hook_is_driver(caller) ? DCP_HOOK_COUNT : row;
}

/* `found` is what the real lookup said. It may be our own export, which stands
 * before the driver's in the global scope: then there is an answer only if the
 * driver is there at all, and *again is set if not. */
static void *
answer(unsigned row, void *found, bool *again)
{
    void *original = dcp_hook_original(row);

    *again = found == dcp_hook_body[row] && !original;
    return found && found == original ? dcp_hook_body[row] : found;
}

DCP_EARLY struct dcp_answer
dcp_door_dlsym(void *handle, const char *name, const void *caller)
{
    const struct dcp_dl *dl = dcp_dl();
    unsigned row = row_of(handle, name, caller);
    bool again;

    if (row == DCP_HOOK_COUNT || !dl->sym)
        return (struct dcp_answer){NULL, (void *)dl->sym};
    void *value = answer(row, dl->sym(handle, name), &again);
    if (again)
        value = dl->sym(RTLD_NEXT, name);
    return (struct dcp_answer){value, NULL};
}

DCP_EARLY struct dcp_answer
dcp_door_dlvsym(void *handle, const char *name, const char *version,
                const void *caller)
{
    const struct dcp_dl *dl = dcp_dl();
    unsigned row = row_of(handle, name, caller);
    bool again;

    if (row == DCP_HOOK_COUNT || !dl->vsym)
        return (struct dcp_answer){NULL, (void *)dl->vsym};
    void *value = answer(row, dl->vsym(handle, name, version), &again);
    if (again)
        value = dl->vsym(RTLD_NEXT, name, version);
    return (struct dcp_answer){value, NULL};
}

#if defined(__x86_64__)
/* The arguments are kept on the stack over the question. */
__asm__(".text\n"
        ".p2align 4\n"
        ".globl dlsym\n"
        ".type dlsym, @function\n"
        "dlsym:\n"
        "    .cfi_startproc\n"
        "    endbr64\n"
        "    subq $24, %rsp\n"
        "    .cfi_def_cfa_offset 32\n"
        "    movq %rdi, (%rsp)\n"
        "    movq %rsi, 8(%rsp)\n"
        "    movq 24(%rsp), %rdx\n"
        "    call dcp_door_dlsym\n"
        "    movq (%rsp), %rdi\n"
        "    movq 8(%rsp), %rsi\n"
        "    addq $24, %rsp\n"
        "    .cfi_def_cfa_offset 8\n"
        "    testq %rdx, %rdx\n"
        "    je 1f\n"
        "    jmp *%rdx\n"
        "1:  ret\n"
        "    .cfi_endproc\n"
        ".size dlsym, . - dlsym\n"
        ".p2align 4\n"
        ".globl dlvsym\n"
        ".type dlvsym, @function\n"
        "dlvsym:\n"
        "    .cfi_startproc\n"
        "    endbr64\n"
        "    subq $24, %rsp\n"
        "    .cfi_def_cfa_offset 32\n"
        "    movq %rdi, (%rsp)\n"
        "    movq %rsi, 8(%rsp)\n"
        "    movq %rdx, 16(%rsp)\n"
        "    movq 24(%rsp), %rcx\n"
        "    call dcp_door_dlvsym\n"
        "    movq %rdx, %r11\n"
        "    movq (%rsp), %rdi\n"
        "    movq 8(%rsp), %rsi\n"
        "    movq 16(%rsp), %rdx\n"
        "    addq $24, %rsp\n"
        "    .cfi_def_cfa_offset 8\n"
        "    testq %r11, %r11\n"
        "    je 1f\n"
        "    jmp *%r11\n"
        "1:  ret\n"
        "    .cfi_endproc\n"
        ".size dlvsym, . - dlvsym\n");
#elif defined(__aarch64__)
__asm__(".text\n"
        ".p2align 4\n"
        ".globl dlsym\n"
        ".type dlsym, %function\n"
        "dlsym:\n"
        "    .cfi_startproc\n"
        "    hint #34\n"
        "    stp x29, x30, [sp, #-32]!\n"
        "    .cfi_def_cfa_offset 32\n"
        "    .cfi_offset 29, -32\n"
        "    .cfi_offset 30, -24\n"
        "    stp x0, x1, [sp, #16]\n"
        "    mov x2, x30\n"
        "    bl dcp_door_dlsym\n"
        "    mov x16, x1\n"
        "    cbz x16, 1f\n"
        "    ldp x0, x1, [sp, #16]\n"
        "    ldp x29, x30, [sp], #32\n"
        "    br x16\n"
        "1:  ldp x29, x30, [sp], #32\n"
        "    ret\n"
        "    .cfi_endproc\n"
        ".size dlsym, . - dlsym\n"
        ".p2align 4\n"
        ".globl dlvsym\n"
        ".type dlvsym, %function\n"
        "dlvsym:\n"
        "    .cfi_startproc\n"
        "    hint #34\n"
        "    stp x29, x30, [sp, #-48]!\n"
        "    .cfi_def_cfa_offset 48\n"
        "    .cfi_offset 29, -48\n"
        "    .cfi_offset 30, -40\n"
        "    stp x0, x1, [sp, #16]\n"
        "    str x2, [sp, #32]\n"
        "    mov x3, x30\n"
        "    bl dcp_door_dlvsym\n"
        "    mov x16, x1\n"
        "    cbz x16, 1f\n"
        "    ldr x2, [sp, #32]\n"
        "    ldp x0, x1, [sp, #16]\n"
        "    ldp x29, x30, [sp], #48\n"
        "    br x16\n"
        "1:  ldp x29, x30, [sp], #48\n"
        "    ret\n"
        "    .cfi_endproc\n"
        ".size dlvsym, . - dlvsym\n");
#else
#error "the doors need a tail jump in assembler for this processor"
#endif

/* The driver chooses by name, version and flags; what it chose has a hook or
 * has none. A NULL stays one. */
static void
swap(const char *name, void **function)
{
    if (!name || !function || !*function || dcp_hook_is_secure())
        return;
    unsigned row = dcp_hook_by_address(*function, name);
    if (row != DCP_HOOK_COUNT)
        *function = dcp_hook_body[row];
}

/* Four arguments: whoever asked for a version below 12.0 passes no fifth. */
DCP_BODY CUresult CUDAAPI
dcp_body_cuGetProcAddress(const char *symbol, void **pfn, int cudaVersion,
                          cuuint64_t flags)
{
    DCP_FIND_REAL(cuGetProcAddress, CUDA_ERROR_NOT_SUPPORTED);
    CUresult cu = real(symbol, pfn, cudaVersion, flags);

    if (cu == CUDA_SUCCESS)
        swap(symbol, pfn);
    return cu;
}

DCP_BODY CUresult CUDAAPI
dcp_body_cuGetProcAddress_v2(const char *symbol, void **pfn, int cudaVersion,
                             cuuint64_t flags,
                             CUdriverProcAddressQueryResult *symbolStatus)
{
    DCP_FIND_REAL(cuGetProcAddress_v2, CUDA_ERROR_NOT_SUPPORTED);
    CUresult cu = real(symbol, pfn, cudaVersion, flags, symbolStatus);

    if (cu == CUDA_SUCCESS)
        swap(symbol, pfn);
    return cu;
}

DCP_EXPORT_BODY(cuGetProcAddress);
DCP_EXPORT_BODY(cuGetProcAddress_v2);
