/* SPDX-License-Identifier: Apache-2.0 */
/* The head of each entry point: counting, logging, failing on demand.
 *
 *   DCPSIM_FAIL=cuMemAllocAsync:3=2,cuLaunchKernel:10=719
 *       the third cuMemAllocAsync answers 2 without doing anything; the tenth
 *       cuLaunchKernel 719. A name without suffix stands for all its versions
 *       and stream forms together; "*" for every function; ":3+" for the third
 *       and all later ones.
 *   DCPSIM_FAULT=fill:5=719
 *       the fifth kernel of that name that runs ends with 719 instead of doing
 *       anything; its context is broken from then on
 *   DCPSIM_COUNT=FILE   at exit: "name calls", one a line
 *   DCPSIM_LOG=FILE     each call as it comes; "-" is standard error */
#include "sim.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

struct plan {
    char name[64];
    unsigned long at, seen;
    bool onwards;
    CUresult result;
};

struct plans {
    struct plan at[64];
    size_t count;
};

static struct plans calls, kernels;
static int log_fd = -1;
static struct sim_site *sites;
static pthread_mutex_t site_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool active;                 /* plans or a log: the slow path */
static _Atomic int gone;            /* the process is ending */
static _Atomic int forked;          /* child of a process that used us */

/* Compares names without _v2, _ptsz and the like on the call's side. */
static bool
name_matches(const char *plan, const char *name)
{
    if (strcmp(plan, "*") == 0)
        return true;
    size_t length = strlen(plan);
    if (strncmp(plan, name, length) != 0)
        return false;
    const char *rest = name + length;
    if (rest[0] == '_' && rest[1] == 'v' && rest[2] >= '0' && rest[2] <= '9')
        rest += 3;
    return *rest == '\0' || strcmp(rest, "_ptsz") == 0 ||
           strcmp(rest, "_ptds") == 0;
}

static void
parse_plans(struct plans *plans, const char *text)
{
    while (text && *text && plans->count < SIM_COUNT(plans->at)) {
        struct plan *plan = &plans->at[plans->count];
        char more = 0;
        int result = 0;
        plan->at = 1;
        if (sscanf(text, "%63[^:=,]:%lu%c%d", plan->name, &plan->at, &more,
                   &result) == 4 && more == '=') {
            plan->result = (CUresult)result;
            plans->count++;
        } else if (sscanf(text, "%63[^:=,]:%lu+=%d", plan->name, &plan->at,
                          &result) == 3) {
            plan->onwards = true;
            plan->result = (CUresult)result;
            plans->count++;
        }
        text = strchr(text, ',');
        if (text)
            text++;
    }
}

static void
before_fork(void)
{
    pthread_mutex_lock(&sim_lock);
}

static void
after_fork(void)
{
    pthread_mutex_unlock(&sim_lock);
}

static void
in_child(void)
{
    if (sim_ready)
        atomic_store(&forked, 1);
    pthread_mutex_init(&sim_lock, NULL);
    pthread_mutex_init(&site_lock, NULL);
}

static void
setup(void)
{
    parse_plans(&calls, getenv("DCPSIM_FAIL"));
    parse_plans(&kernels, getenv("DCPSIM_FAULT"));
    const char *path = getenv("DCPSIM_LOG");
    if (path != NULL && *path != '\0')
        log_fd = strcmp(path, "-") == 0
                     ? 2
                     : open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC,
                            0644);
    active = calls.count > 0 || log_fd >= 0;
    pthread_atfork(before_fork, after_fork, in_child);
}

static void
site_know(struct sim_site *site)
{
    pthread_mutex_lock(&site_lock);
    if (!site->known) {
        site->next = sites;
        sites = site;
        site->known = 1;
    }
    pthread_mutex_unlock(&site_lock);
}

static CUresult
planned(struct plans *plans, const char *name)
{
    CUresult result = CUDA_SUCCESS;
    pthread_mutex_lock(&site_lock);
    for (size_t i = 0; i < plans->count; i++) {
        struct plan *plan = &plans->at[i];
        if (!name_matches(plan->name, name))
            continue;
        plan->seen++;
        if (plan->seen == plan->at || (plan->onwards && plan->seen > plan->at))
            result = plan->result;
    }
    pthread_mutex_unlock(&site_lock);
    return result;
}

CUresult
sim_fail_kernel(const char *name)
{
    return kernels.count ? planned(&kernels, name) : CUDA_SUCCESS;
}

static CUresult
slow_path(const struct sim_site *site)
{
    CUresult result = planned(&calls, site->name);
    if (log_fd >= 0) {
        char line[128];
        int n = snprintf(line, sizeof line, "%ld %s%s%.0d\n",
                         syscall(SYS_gettid), site->name,
                         result ? " fails " : "", (int)result);
        if (write(log_fd, line, (size_t)n) < 0)
            log_fd = -1;
    }
    return result;
}

CUresult
sim_enter(struct sim_site *site, enum sim_need need)
{
    pthread_once(&once, setup);
    atomic_fetch_add_explicit(&site->calls, 1, memory_order_relaxed);
    if (!atomic_load_explicit(&site->known, memory_order_relaxed))
        site_know(site);
    if (active) {
        CUresult result = slow_path(site);
        if (result != CUDA_SUCCESS)
            return result;
    }
    if (atomic_load_explicit(&gone, memory_order_relaxed))
        return CUDA_ERROR_DEINITIALIZED;
    if (need != SIM_NONE && atomic_load_explicit(&forked, memory_order_relaxed))
        return CUDA_ERROR_NOT_INITIALIZED;
    if (need != SIM_NONE && sim_thread.in_host)
        return CUDA_ERROR_NOT_PERMITTED;
    pthread_mutex_lock(&sim_lock);
    CUresult result = CUDA_SUCCESS;
    if (need >= SIM_INIT && !sim_ready)
        result = CUDA_ERROR_NOT_INITIALIZED;
    else if (need >= SIM_CURRENT && sim_thread.depth == 0)
        result = CUDA_ERROR_INVALID_CONTEXT;
    else if (need >= SIM_CURRENT) {
        struct sim_ctx *ctx = sim_thread.stack[sim_thread.depth - 1];
        if (ctx == NULL)
            result = CUDA_ERROR_INVALID_CONTEXT;
        else if (ctx->legacy == NULL)
            result = CUDA_ERROR_CONTEXT_IS_DESTROYED;
        else
            result = ctx->error;
    }
    if (result != CUDA_SUCCESS)
        pthread_mutex_unlock(&sim_lock);
    return result;
}

void
sim_leave(const int *guard)
{
    (void)guard;
    pthread_mutex_unlock(&sim_lock);
}

static void
write_counts(const char *path)
{
    FILE *out = fopen(path, "we");
    if (out == NULL)
        return;
    pthread_mutex_lock(&site_lock);
    for (struct sim_site *site = sites; site; site = site->next)
        fprintf(out, "%s %lu\n", site->name, atomic_load(&site->calls));
    pthread_mutex_unlock(&site_lock);
    fclose(out);
}

static size_t counts[SIM_KIND_COUNT];

static void
count_object(void *object)
{
    const struct sim_object *head = object;
    const struct sim_stream *stream = object;
    if (head->kind == SIM_STREAM && (stream->legacy || stream->per_thread))
        return;
    const struct sim_ctx *ctx = object;
    if (head->kind == SIM_CTX && ctx->primary && ctx->device->primary_refs == 0)
        return;
    const struct sim_func *func = object;
    if (head->kind == SIM_FUNC && func->twin != NULL)
        return;
    if (head->kind == SIM_MODULE && sim_module_borrowed(object))
        return;
    const struct sim_event *event = object;
    if (head->kind == SIM_EVENT && event->dead)
        return;
    counts[head->kind]++;
}

/* One line on standard error: what the program has not given back. */
static void
report_leaks(void)
{
    static const char *const names[SIM_KIND_COUNT] = {
        [SIM_CTX] = "contexts", [SIM_STREAM] = "streams",
        [SIM_EVENT] = "events", [SIM_MODULE] = "modules",
        [SIM_LIBRARY] = "libraries", [SIM_POOL] = "pools",
        [SIM_FRAME] = "frames", [SIM_GRAPH] = "graphs",
        [SIM_EXEC] = "execs", [SIM_USER] = "user-objects",
    };
    static const char *const places[] = {
        [SIM_DEVICE] = "blocks", [SIM_POOLED] = "pool-blocks",
        [SIM_MANAGED] = "managed", [SIM_PINNED] = "pinned",
        [SIM_REGISTERED] = "registered", [SIM_RESERVED] = "reservations",
        [SIM_MAPPED] = "mappings",
    };
    for (int kind = 0; kind < SIM_KIND_COUNT; kind++)
        sim_object_each((enum sim_kind)kind, count_object);
    /* each device's own pool is not the program's */
    for (int i = 0; i < sim_device_count; i++)
        if (sim_devices[i].default_pool != NULL && counts[SIM_POOL] > 0)
            counts[SIM_POOL]--;
    fprintf(stderr, "dcpsim: live");
    for (int kind = 0; kind < SIM_KIND_COUNT; kind++)
        if (names[kind] != NULL)
            fprintf(stderr, " %s %zu", names[kind], counts[kind]);
    for (size_t i = 0; i < SIM_COUNT(places); i++)
        fprintf(stderr, " %s %zu", places[i],
                sim_range_count((enum sim_place)i));
    fprintf(stderr, "\n");
}

__attribute__((destructor)) static void
at_exit(void)
{
    if (atomic_load(&forked))
        return;
    const char *path = getenv("DCPSIM_COUNT");
    if (path != NULL && *path != '\0')
        write_counts(path);
    sim_exec_stop();
    pthread_mutex_lock(&sim_lock);
    if (sim_ready && sim_env("DCPSIM_LEAKS", 0))
        report_leaks();
    atomic_store(&gone, 1);
    pthread_mutex_unlock(&sim_lock);
}

/* For sim_rest.c: the same head, with the site made on the first call. */
int
sim_rest_enter(const char *name, void **slot)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&lock);
    if (*slot == NULL) {
        struct sim_site *site = calloc(1, sizeof *site);
        site->name = name;
        *slot = site;
    }
    struct sim_site *site = *slot;
    pthread_mutex_unlock(&lock);
    CUresult result = sim_enter(site, SIM_NONE);
    if (result == CUDA_SUCCESS)
        sim_leave(NULL);
    return (int)result;
}
