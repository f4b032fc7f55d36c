/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "replay/flusher.h"

#include "replay/session.h"

#include <pthread.h>
#include <signal.h>
#include <time.h>

enum {
    TICK_NS = 1000 * 1000,     /* while the program makes calls */
    IDLE_NS = 20 * 1000 * 1000, /* after a second without any */
    TICKS_TO_IDLE = 1000,
    STILL = 4, /* ticks without a call */
};

static void
pause_ns(long ns)
{
    struct timespec t = {0, ns};

    nanosleep(&t, NULL);
}

static void *
flusher(void *unused)
{
    struct dcp_session *s = &dcp_session;
    uint32_t seen = 0;
    unsigned still = 0;

    (void)unused;
    dcp_hook_mute();
    while (atomic_load(&s->phase) != DCP_PHASE_OFF) {
        uint32_t now = atomic_load_explicit(&s->activity, memory_order_relaxed);

        still = now == seen ? still + 1 : 0;
        seen = now;
        if (still >= STILL && s->pending) {
            dcp_lock_take(&s->lock);
            if (atomic_load(&s->activity) == seen)
                dcp_follow_flush_late(s, NULL);
            dcp_lock_give(&s->lock);
        }
        pause_ns(still > TICKS_TO_IDLE ? IDLE_NS : TICK_NS);
    }
    return NULL;
}

bool
dcp_flusher_start(void)
{
    static bool started;
    pthread_attr_t attr;
    pthread_t thread;
    sigset_t all, old;

    if (started)
        return true;
    if (pthread_attr_init(&attr) != 0)
        return false;
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attr, 256 * 1024);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    started = pthread_create(&thread, &attr, flusher, NULL) == 0;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    pthread_attr_destroy(&attr);
    return started;
}
