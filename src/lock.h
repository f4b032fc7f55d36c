/* SPDX-License-Identifier: Apache-2.0 */
/* A mutex of one word: a dozen instructions when nobody contends, a futex
 * when somebody does. Not recursive, not fair. */
#ifndef DCP_SRC_LOCK_H
#define DCP_SRC_LOCK_H

#include <linux/futex.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

struct dcp_lock {
    atomic_uint state; /* 0 free, 1 held, 2 held and somebody sleeps */
};

/* Waits for the lock. Any thread; keeps no other state. */
static inline void
dcp_lock_take(struct dcp_lock *lock)
{
    unsigned seen = 0;

    if (atomic_compare_exchange_strong_explicit(&lock->state, &seen, 1,
                                                memory_order_acquire,
                                                memory_order_relaxed))
        return;
    while (atomic_exchange_explicit(&lock->state, 2, memory_order_acquire))
        syscall(SYS_futex, &lock->state, FUTEX_WAIT_PRIVATE, 2, NULL, NULL, 0);
}

/* 1 if the lock was taken, 0 if it is held. */
static inline int
dcp_lock_try(struct dcp_lock *lock)
{
    unsigned seen = 0;

    return atomic_compare_exchange_strong_explicit(
        &lock->state, &seen, 1, memory_order_acquire, memory_order_relaxed);
}

static inline void
dcp_lock_give(struct dcp_lock *lock)
{
    if (atomic_exchange_explicit(&lock->state, 0, memory_order_release) == 2)
        syscall(SYS_futex, &lock->state, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

#endif
