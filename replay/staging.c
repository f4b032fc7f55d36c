/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "replay/staging.h"

#include "src/alloc.h"

#include <stdlib.h>
#include <string.h>

enum { SLOTS = 2 };

struct stage_slot {
    void *host;
    CUevent done;
    bool busy; /* `done` was recorded and not yet seen */
};

struct dcp_stage {
    uint64_t bytes; /* of each slot */
    unsigned turn;
    struct stage_slot slot[SLOTS];
};

static void
slot_wait(struct stage_slot *slot)
{
    if (!slot->busy)
        return;
    if (dcp_real.cuEventQuery(slot->done) != CUDA_SUCCESS)
        dcp_real.cuEventSynchronize(slot->done);
    slot->busy = false;
}

static struct dcp_stage *
stage_make(uint64_t bytes)
{
    struct dcp_stage *stage = dcp_calloc(1, sizeof *stage);

    if (!stage)
        return NULL;
    stage->bytes = (bytes + 255) & ~(uint64_t)255;
    for (unsigned i = 0; i < SLOTS; i++)
        if (dcp_real.cuMemHostAlloc(&stage->slot[i].host, stage->bytes, 0) !=
                CUDA_SUCCESS ||
            dcp_real.cuEventCreate(&stage->slot[i].done,
                                   CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS) {
            dcp_stage_drop(&stage);
            return NULL;
        }
    return stage;
}

uint64_t
dcp_stage_reserve(struct dcp_stage **stage, uint64_t bytes)
{
    if (bytes > DCP_STAGE_MAX)
        return 0;
    if (*stage && (*stage)->bytes < bytes)
        dcp_stage_drop(stage);
    if (!*stage)
        *stage = stage_make(bytes);
    return *stage ? (uint64_t)(*stage)->slot[(*stage)->turn].host : 0;
}

uint64_t
dcp_stage_put(struct dcp_stage **stage, const struct dcp_view *view)
{
    if (!dcp_stage_reserve(stage, view->copy.bytes))
        return 0;
    struct dcp_stage *s = *stage;
    s->turn = (s->turn + 1) % SLOTS;
    struct stage_slot *slot = &s->slot[s->turn];
    slot_wait(slot);
    memcpy(slot->host, (const void *)view->copy.src, view->copy.bytes);
    return (uint64_t)slot->host;
}

void
dcp_stage_issued(struct dcp_stage *stage, CUstream stream)
{
    struct stage_slot *slot = &stage->slot[stage->turn];

    if (dcp_real.cuEventRecord(slot->done, stream) == CUDA_SUCCESS)
        slot->busy = true;
    else
        dcp_real.cuStreamSynchronize(stream);
}

void
dcp_stage_drop(struct dcp_stage **stage)
{
    struct dcp_stage *s = *stage;

    if (!s)
        return;
    for (unsigned i = 0; i < SLOTS; i++) {
        slot_wait(&s->slot[i]);
        if (s->slot[i].done)
            dcp_real.cuEventDestroy_v2(s->slot[i].done);
        if (s->slot[i].host)
            dcp_real.cuMemFreeHost(s->slot[i].host);
    }
    free(s);
    *stage = NULL;
}
