/* SPDX-License-Identifier: Apache-2.0 */
/* The one constructor, and what happens around the program's first cuInit. */
#include "config.h"

#include "intercept/heap.h"
#include "intercept/hook.h"
#include "replay/session.h"
#include "replay/watch.h"
#include "src/alloc.h"
#include "src/log.h"
#include "src/stack.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

static bool configured;

static int
env_int(const char *name, int otherwise)
{
    const char *text = getenv(name);
    char *end;

    if (!text || !*text)
        return otherwise;
    long value = strtol(text, &end, 10);
    return *end || value < 0 || value > INT_MAX ? otherwise : (int)value;
}

/* A bad configuration ends the program before it has done any work. */
static bool
config_read(struct dcp_session *s, const char *path)
{
    char error[1024];

    dcp_config_default(&s->config);
    if (!path)
        return false;
    if (dcp_config_load(path, &s->config, error, sizeof error) == DCP_OK)
        return true;
    dcp_error("%s", error);
    if (s->config.on_error_passthrough)
        return false;
    dcp_error("the program is stopped; \"on_error\": \"passthrough\" in section "
              "dcprel would let it go on without dcprel");
    _exit(2);
}

static void
trace_begin(struct dcp_session *s, int rank, int world)
{
    const char *dir = s->config.trace_dir;

    if (!dir[0])
        dir = getenv("DCPREL_TRACE");
    if (!dir || !dir[0])
        return;
    s->trace = dcp_trace_open(dir, rank, world);
    dcp_session_trace_start(s, rank, world);
}

/* In the program's thread, before its cuInit. */
static void
at_init(void)
{
    struct dcp_session *s = &dcp_session;
    int rank = env_int("RANK", -1), world = env_int("WORLD_SIZE", 1);
    const char *path = getenv("DC_CONFIG");

    dcp_log_set_rank(rank < 0 ? 0 : rank);
    if (path && !*path)
        path = NULL;
    configured = config_read(s, path) && s->config.enabled;
    if (getenv("DCPREL_LOG"))
        dcp_log_set_level(getenv("DCPREL_LOG"));
    else if (configured)
        dcp_log_threshold = (enum dcp_log_level)s->config.log_level;
    trace_begin(s, rank < 0 ? 0 : rank, world);
    if (configured)
        dcp_config_log(&s->config);
}

/* A percentage is of what the first GPU has. */
static size_t
budget_bytes(const struct dcp_config *config)
{
    size_t total = 0;

    if (config->memory_budget_percent > 0 &&
        dcp_real.cuDeviceTotalMem_v2(&total, 0) == CUDA_SUCCESS)
        return (size_t)((double)total * config->memory_budget_percent / 100);
    return config->memory_budget_bytes;
}

/* After it: the driver's version is known. */
static void
at_init_done(CUresult result)
{
    struct dcp_session *s = &dcp_session;
    int version = 0;

    if (result != CUDA_SUCCESS)
        return;
    dcp_alloc_fail_at(env_int("DCPREL_TEST_FAIL_ALLOC", 0));
    if (!configured) {
        dcp_watch_start(s->trace);
        return;
    }
    if (!dcp_real.cuDriverGetVersion ||
        dcp_real.cuDriverGetVersion(&version) != CUDA_SUCCESS ||
        version < 12040) {
        dcp_warn("the driver answers as CUDA %d.%d; 12.4 is needed for "
                 "cuKernelGetParamInfo; the program is only watched",
                 version / 1000, version % 1000 / 10);
        dcp_watch_start(s->trace);
        return;
    }
    struct dcp_heap_options heap = {
        .budget = budget_bytes(&s->config),
        .large_bytes = s->config.large_bytes,
        .spill = true,
    };
    s->budget = heap.budget;
    dcp_heap_configure(&heap);
    dcp_hook_own(true);
    dcp_session_trace_heap(s);
    dcp_session_start();
}

/* PyTorch reads this when it starts: every tensor then is an allocation of
 * its own. Whatever the user has set stays. */
static void
allocator_set(void)
{
    struct dcp_config config;
    char error[1024];
    const char *path = getenv("DC_CONFIG");

    if (!path || !*path || getenv("PYTORCH_ALLOC_CONF") ||
        getenv("PYTORCH_CUDA_ALLOC_CONF") ||
        getenv("PYTORCH_NO_CUDA_MEMORY_CACHING"))
        return;
    dcp_config_default(&config);
    if (dcp_config_load(path, &config, error, sizeof error) != DCP_OK ||
        !config.enabled || config.allocator_program)
        return;
    setenv("PYTORCH_ALLOC_CONF", "backend:cudaMallocAsync", 0);
    setenv("PYTORCH_CUDA_ALLOC_CONF", "backend:cudaMallocAsync", 0);
}

__attribute__((constructor)) static void
preload(void)
{
    if (getauxval(AT_SECURE))
        return;
    allocator_set();
    dcp_hook_at_init(at_init);
    dcp_hook_at_init_done(at_init_done);
}
