/* SPDX-License-Identifier: Apache-2.0 */
/* Who listens, and the recursion guard: what every exported body looks at
 * first. Shared by the hook_*.c files only. */
#ifndef DCP_INTERCEPT_HOOK_GUARD_H
#define DCP_INTERCEPT_HOOK_GUARD_H

#include "intercept/hook.h"

#include <stdatomic.h>

/* What may run before a sanitizer has started, which calls dlsym to do so. */
#define DCP_EARLY                                                              \
    __attribute__((no_sanitize("address"), no_sanitize("thread"),              \
                   no_sanitize("undefined")))

#define DCP_LIKELY(x) __builtin_expect(!!(x), 1)
#define DCP_UNLIKELY(x) __builtin_expect(!!(x), 0)

struct dcp_hook_state {
    _Atomic(const struct dcp_sink *) sink;
    atomic_bool own;
    atomic_bool off; /* for good: a forked child of a process that used CUDA */
};

extern struct dcp_hook_state dcp_hook_state;

/* Of the calling thread: 1 while a body is at work, and DCP_HOOK_MUTE more for
 * every dcp_hook_mute that is open. */
enum { DCP_HOOK_MUTE = 1 << 16 };
extern __thread unsigned dcp_hook_depth
    __attribute__((tls_model("initial-exec")));

static inline const struct dcp_sink *
dcp_hook_sink_any(void)
{
    return atomic_load_explicit(&dcp_hook_state.sink, memory_order_acquire);
}

static inline bool
dcp_hook_owns_any(void)
{
    return atomic_load_explicit(&dcp_hook_state.own, memory_order_acquire);
}

/* The sink that has to see a call of this thread; NULL for none. */
static inline const struct dcp_sink *
dcp_hook_sink(void)
{
    return dcp_hook_depth == 0 ? dcp_hook_sink_any() : NULL;
}

/* True when an OWN body stands for the original. A muted thread's memory comes
 * from the heap too: other threads may free it. */
static inline bool
dcp_hook_owns(void)
{
    return dcp_hook_depth % DCP_HOOK_MUTE == 0 && dcp_hook_owns_any();
}

/* In a body: `real` is the row's original; where there is none the program
 * gets `error`. */
#define DCP_FIND_REAL(symbol, error)                                           \
    __typeof__(dcp_real.symbol) real =                                         \
        __atomic_load_n(&dcp_real.symbol, __ATOMIC_RELAXED);                   \
    if (DCP_UNLIKELY(!real)) {                                                 \
        dcp_hook_resolve();                                                    \
        real = __atomic_load_n(&dcp_real.symbol, __ATOMIC_RELAXED);            \
        if (!real)                                                             \
            return error;                                                      \
    }

/* Bodies have hidden names of their own: an exported name may be another
 * library's or the program's when seen from here. */
#define DCP_BODY __attribute__((visibility("hidden")))
#define DCP_EXPORT_BODY(symbol)                                                \
    extern __typeof__(dcp_body_##symbol) symbol                                \
        __attribute__((alias("dcp_body_" #symbol), visibility("default")))

#endif
