/* SPDX-License-Identifier: Apache-2.0 */
/* Ops: a graph of what has to happen before what, and the two threads that
 * carry it out: the worker (kernels, copies, fills, memory operations) and
 * the host thread (host functions, which may block for long).
 *
 *   DCPSIM_JITTER=seed   takes ready ops in random order, with random delays:
 *                        badly ordered work gives other results */
#include "sim.h"

#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

struct queue {
    struct sim_op *first, *last;
    size_t count;
};

static struct queue ready, host, instant;
static struct sim_op *polls;
static pthread_t worker_thread;
static bool worker_runs, host_runs, stopping;
static bool worker_sleeps;
static _Atomic bool wake;
static pthread_cond_t worker_cond = PTHREAD_COND_INITIALIZER;
static pthread_cond_t host_cond = PTHREAD_COND_INITIALIZER;
static unsigned waiters;
static int jitter = -1;

static void
queue_push(struct queue *queue, struct sim_op *op)
{
    op->link = NULL;
    if (queue->last)
        queue->last->link = op;
    else
        queue->first = op;
    queue->last = op;
    queue->count++;
}

static struct sim_op *
queue_pop(struct queue *queue, size_t skip)
{
    struct sim_op **link = &queue->first, *before = NULL;
    for (; skip > 0; skip--) {
        before = *link;
        link = &before->link;
    }
    struct sim_op *op = *link;
    if (op == NULL)
        return NULL;
    *link = op->link;
    if (queue->last == op)
        queue->last = before;
    queue->count--;
    return op;
}

struct sim_op *
sim_op_new(struct sim_ctx *ctx, struct sim_work *work)
{
    struct sim_op *op = calloc(1, sizeof *op);
    op->refs = 2; /* the caller's, and its own until it is done */
    op->waiting = 1;
    op->ctx = ctx;
    op->work = work;
    op->next = op->few;
    op->next_room = SIM_COUNT(op->few);
    ctx->pending++;
    return op;
}

struct sim_op *
sim_op_ref(struct sim_op *op)
{
    op->refs++;
    return op;
}

void
sim_op_drop(struct sim_op *op)
{
    if (op == NULL || --op->refs > 0)
        return;
    if (op->next != op->few)
        free(op->next);
    if (op->work)
        sim_work_drop(op->work);
    free(op);
}

void
sim_op_after(struct sim_op *op, struct sim_op *before)
{
    if (!sim_op_busy(before))
        return;
    if (before->next_count == before->next_room) {
        size_t room = before->next_room * 2;
        struct sim_op **next = malloc(room * sizeof *next);
        for (uint32_t i = 0; i < before->next_count; i++)
            next[i] = before->next[i];
        if (before->next != before->few)
            free(before->next);
        before->next = next;
        before->next_room = (uint32_t)room;
    }
    before->next[before->next_count++] = op;
    op->waiting++;
}

static void *worker_main(void *);
static void *host_main(void *);

static void
thread_start(pthread_t *thread, void *(*body)(void *))
{
    sigset_t all, old;
    sigfillset(&all);
    sigdelset(&all, SIGSEGV); /* what a kernel does must be seen */
    sigdelset(&all, SIGBUS);
    sigdelset(&all, SIGFPE);
    sigdelset(&all, SIGILL);
    sigdelset(&all, SIGABRT);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    pthread_create(thread, NULL, body, NULL);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
}

static void
worker_wake(void)
{
    if (!worker_runs) {
        worker_runs = true;
        jitter = sim_env("DCPSIM_JITTER", 0) != 0;
        thread_start(&worker_thread, worker_main);
    }
    atomic_store_explicit(&wake, true, memory_order_release);
    if (worker_sleeps)
        pthread_cond_signal(&worker_cond);
}

static void
host_wake(void)
{
    if (!host_runs) {
        host_runs = true;
        pthread_t thread;
        thread_start(&thread, host_main);
        pthread_detach(thread);
    }
    pthread_cond_signal(&host_cond);
}

static void
make_ready(struct sim_op *op)
{
    enum sim_work_kind kind = op->work ? op->work->kind : SIM_WORK_EMPTY;
    bool callback = kind == SIM_WORK_HOST && op->work->host.callback;
    if (op->ctx->error != CUDA_SUCCESS && !callback) {
        queue_push(&instant, op);
        return;
    }
    switch (kind) {
    case SIM_WORK_EMPTY:
    case SIM_WORK_RECORD:
    case SIM_WORK_WAIT:
        queue_push(&instant, op);
        break;
    case SIM_WORK_HOST:
        queue_push(&host, op);
        host_wake();
        break;
    case SIM_WORK_MEMOP:
        op->link = polls;
        polls = op;
        worker_wake();
        break;
    default:
        queue_push(&ready, op);
        worker_wake();
    }
}

static void
complete(struct sim_op *op)
{
    op->done_ns = sim_now();
    atomic_store_explicit(&op->done, true, memory_order_release);
    op->ctx->pending--;
    for (uint32_t i = 0; i < op->next_count; i++)
        if (--op->next[i]->waiting == 0)
            make_ready(op->next[i]);
    op->next_count = 0;
    if (op->work) {
        struct sim_work *work = op->work;
        op->work = NULL;
        sim_work_drop(work);
    }
    if (op->on_done)
        op->on_done(op->on_done_arg);
    if (waiters > 0)
        pthread_cond_broadcast(&sim_done);
    sim_op_drop(op);
}

/* Completes what needs no doing; more may become ready by that. */
static void
pump(void)
{
    struct sim_op *op;
    while ((op = queue_pop(&instant, 0)) != NULL)
        complete(op);
}

static void
finish(struct sim_op *op, CUresult result)
{
    if (result != CUDA_SUCCESS && op->ctx->error == CUDA_SUCCESS)
        op->ctx->error = result;
    complete(op);
    pump();
}

void
sim_op_start(struct sim_op *op)
{
    if (--op->waiting == 0) {
        make_ready(op);
        pump();
    }
}

void
sim_op_wait(struct sim_op *op)
{
    if (!sim_op_busy(op))
        return;
    sim_op_ref(op);
    pthread_mutex_unlock(&sim_lock);
    for (int i = 0; i < 2000 && sim_op_busy(op); i++)
        if (i % 64 == 63)
            sched_yield();
    pthread_mutex_lock(&sim_lock);
    while (sim_op_busy(op)) {
        waiters++;
        pthread_cond_wait(&sim_done, &sim_lock);
        waiters--;
    }
    sim_op_drop(op);
}

void
sim_op_wait_any(void)
{
    waiters++;
    pthread_cond_wait(&sim_done, &sim_lock);
    waiters--;
}

static void
nap(uint64_t ns)
{
    struct timespec time = {.tv_sec = 0, .tv_nsec = (long)ns};
    nanosleep(&time, NULL);
}

/* Goes through the pending memory operations; true: some came to an end. */
static bool
poll_all(void)
{
    bool any = false;
    struct sim_op **link = &polls;
    while (*link) {
        struct sim_op *op = *link;
        if (op->ctx->error == CUDA_SUCCESS &&
            !sim_memop_step(op->work, &op->step)) {
            link = &op->link;
            continue;
        }
        *link = op->link;
        finish(op, CUDA_SUCCESS);
        any = true;
        link = &polls; /* finish() may have added to the list */
    }
    return any;
}

static void
worker_rest(void)
{
    bool polling = polls != NULL;
    pthread_mutex_unlock(&sim_lock);
    if (polling) {
        nap(20000);
    } else {
        for (int i = 0; i < 1000; i++) {
            if (atomic_load_explicit(&wake, memory_order_acquire))
                break;
            if (i % 32 == 31)
                sched_yield();
        }
    }
    pthread_mutex_lock(&sim_lock);
    while (!ready.first && !polls && !stopping) {
        worker_sleeps = true;
        pthread_cond_wait(&worker_cond, &sim_lock);
        worker_sleeps = false;
    }
    atomic_store_explicit(&wake, false, memory_order_relaxed);
}

static void
run_one(struct sim_op *op)
{
    if (op->ctx->error != CUDA_SUCCESS) {
        finish(op, CUDA_SUCCESS);
        return;
    }
    uint64_t pause = 0;
    if (jitter > 0 && sim_random() % 4 == 0)
        pause = sim_random() % 200000 + 1;
    pthread_mutex_unlock(&sim_lock);
    if (pause)
        nap(pause);
    CUresult result = sim_work_run(op->work);
    pthread_mutex_lock(&sim_lock);
    finish(op, result);
}

static void *
worker_main(void *unused)
{
    (void)unused;
    pthread_setname_np(pthread_self(), "dcpsim");
    pthread_mutex_lock(&sim_lock);
    while (!stopping) {
        if (polls)
            poll_all();
        size_t skip = 0;
        if (jitter > 0 && ready.count > 0)
            skip = sim_random() % ready.count;
        struct sim_op *op = queue_pop(&ready, skip);
        if (op)
            run_one(op);
        else
            worker_rest();
    }
    pthread_mutex_unlock(&sim_lock);
    return NULL;
}

static void *
host_main(void *unused)
{
    (void)unused;
    sim_thread.in_host = true;
    pthread_setname_np(pthread_self(), "dcpsim-host");
    pthread_mutex_lock(&sim_lock);
    for (;;) {
        struct sim_op *op = queue_pop(&host, 0);
        if (op == NULL) {
            pthread_cond_wait(&host_cond, &sim_lock);
            continue;
        }
        const struct sim_host_work *work = &op->work->host;
        CUresult error = op->ctx->error;
        pthread_mutex_unlock(&sim_lock);
        if (work->callback) {
            work->callback(work->stream, error, work->data);
        } else if (error == CUDA_SUCCESS) {
            work->fn(work->data);
        }
        pthread_mutex_lock(&sim_lock);
        finish(op, CUDA_SUCCESS);
    }
    return NULL;
}

/* At exit: the worker ends its present op and stops. */
void
sim_exec_stop(void)
{
    pthread_mutex_lock(&sim_lock);
    bool join = worker_runs && !stopping &&
                !pthread_equal(pthread_self(), worker_thread);
    stopping = true;
    pthread_cond_signal(&worker_cond);
    pthread_mutex_unlock(&sim_lock);
    if (join)
        pthread_join(worker_thread, NULL);
}
