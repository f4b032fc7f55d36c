/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "replay/experiment.h"

#include "capture/access_gpu.h"
#include "intercept/hook.h"
#include "replay/kernels_ptx.h"
#include "src/log.h"

struct dcp_access_table dcp_experiment_table;

static struct {
    enum { UNTRIED, RUNNING, OVER } state;
    bool refused; /* the driver did not take the kernels */
    struct dcp_access_gpu gpu;
    struct dcp_access_watch *watch;
    CUmodule module;
} experiment;

static bool
kernels_load(void)
{
    struct dcp_access_gpu *gpu = &experiment.gpu;
    void *host = NULL;

    if (dcp_real.cuModuleLoadData(&experiment.module, dcp_kernels_ptx) !=
            CUDA_SUCCESS ||
        dcp_real.cuModuleGetFunction(&gpu->hash, experiment.module,
                                     "dcp_hash_block") != CUDA_SUCCESS ||
        dcp_real.cuModuleGetFunction(&gpu->pattern, experiment.module,
                                     "dcp_fill_pattern") != CUDA_SUCCESS ||
        dcp_real.cuMemHostAlloc(&host, DCP_ACCESS_RESULTS * sizeof(uint64_t),
                                CU_MEMHOSTALLOC_DEVICEMAP) != CUDA_SUCCESS)
        return false;
    gpu->results = host;
    for (unsigned i = 0; i < DCP_ACCESS_RESULTS; i++)
        gpu->results[i] = 0;
    return true;
}

static void
start(void)
{
    experiment.state = OVER;
    if (!kernels_load()) {
        dcp_info("the library's own kernels cannot be loaded; what kernels "
                 "read and write stays unknown");
        experiment.refused = true;
        dcp_experiment_stop();
        return;
    }
    struct dcp_access_ops ops = dcp_access_gpu_ops(&experiment.gpu);
    experiment.watch =
        dcp_access_watch_create(&dcp_experiment_table, &ops, NULL);
    if (experiment.watch)
        experiment.state = RUNNING;
}

bool
dcp_experiment_begin(const struct dcp_call *call)
{
    if (experiment.state == UNTRIED && call->op == DCP_CALL_LAUNCH)
        start();
    if (experiment.state != RUNNING)
        return false;
    if (dcp_access_done(experiment.watch)) {
        dcp_experiment_stop();
        return false;
    }
    return dcp_access_begin(experiment.watch, call);
}

void
dcp_experiment_end(const struct dcp_call *call, bool ok)
{
    if (experiment.state == RUNNING)
        dcp_access_end(experiment.watch, call, ok);
}

void
dcp_experiment_stop(void)
{
    dcp_access_watch_destroy(experiment.watch);
    experiment.watch = NULL;
    experiment.state = OVER;
    if (experiment.gpu.stuck) {
        /* Giving these back would wait for the GPU. */
        experiment.refused = true;
        experiment.gpu.results = NULL;
        experiment.module = NULL;
    }
    if (experiment.gpu.results)
        dcp_real.cuMemFreeHost(experiment.gpu.results);
    if (experiment.module)
        dcp_real.cuModuleUnload(experiment.module);
    experiment.gpu.results = NULL;
    experiment.module = NULL;
}

void
dcp_experiment_again(void)
{
    if (!experiment.refused)
        experiment.state = UNTRIED;
}
