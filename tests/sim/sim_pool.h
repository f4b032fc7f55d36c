/* SPDX-License-Identifier: Apache-2.0 */
/* What a memory pool is; see sim_pool.c. */
#ifndef DCP_SIM_SIM_POOL_H
#define DCP_SIM_SIM_POOL_H

#include "sim.h"

struct sim_pool {
    struct sim_object object;
    struct sim_device *device;
    CUmemPoolProps props;
    struct sim_chunk *chunks;
    struct sim_block *free;
    int reuse_event, reuse_opportunistic, reuse_internal;
    cuuint64_t threshold;
    size_t reserved, reserved_high, used, used_high;
    size_t live;                        /* blocks in use */
    bool doomed;                        /* destroyed with blocks in use */
    struct sim_pool *next;
};

struct sim_pool *sim_pool_new(struct sim_device *device);
/* Gives free chunks back until at most `keep` bytes are reserved. */
void sim_pool_trim(struct sim_pool *pool, size_t keep);
void sim_pool_finish(struct sim_pool *pool);

#endif
