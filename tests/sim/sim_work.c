/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptions of work, shared by ops, graph nodes and execs. */
#include "sim.h"

#include <stdlib.h>

struct sim_work *
sim_work_new(enum sim_work_kind kind)
{
    struct sim_work *work = calloc(1, sizeof *work);
    work->kind = kind;
    work->refs = 1;
    return work;
}

struct sim_work *
sim_work_ref(struct sim_work *work)
{
    work->refs++;
    return work;
}

void
sim_work_drop(struct sim_work *work)
{
    if (work == NULL || --work->refs > 0)
        return;
    switch (work->kind) {
    case SIM_WORK_KERNEL:
        free(work->kernel.params);
        free(work->kernel.attrs);
        break;
    case SIM_WORK_COPY:
        free(work->copy.staged);
        break;
    case SIM_WORK_MEMOP:
        free(work->memop.ops);
        break;
    case SIM_WORK_RECORD:
    case SIM_WORK_WAIT:
        if (work->event)
            sim_event_drop(work->event);
        break;
    case SIM_WORK_ALLOC:
        sim_alloc_release(work->alloc.range);
        break;
    case SIM_WORK_CHILD:
        if (work->child)
            sim_graph_free(work->child);
        break;
    default:
        break;
    }
    free(work);
}

CUresult
sim_work_run(struct sim_work *work)
{
    switch (work->kind) {
    case SIM_WORK_KERNEL:
        return sim_kernel_run(&work->kernel);
    case SIM_WORK_COPY:
        return sim_copy_run(&work->copy);
    case SIM_WORK_FILL:
        return sim_fill_run(&work->fill);
    default:
        return CUDA_SUCCESS;
    }
}
