/* SPDX-License-Identifier: Apache-2.0 */
/* The real operations of access discovery: kernels of ours (replay/kernels.cu)
 * launched into the program's stream, results in pinned host memory. */
#ifndef DCP_CAPTURE_ACCESS_GPU_H
#define DCP_CAPTURE_ACCESS_GPU_H

#include "capture/access.h"

#include "intercept/hook_cuda.h"

enum { DCP_ACCESS_RESULTS = 128 }; /* 8-byte results needed */

struct dcp_access_gpu {
    CUfunction hash;    /* dcp_hash_block(address, bytes, result) */
    CUfunction pattern; /* dcp_fill_pattern(address, bytes) */
    uint64_t *results;  /* DCP_ACCESS_RESULTS words of pinned host memory that
                           the device can write (cuMemHostAlloc), all zero */
    bool stuck;         /* kernels of ours are still to run: `results` and the
                           module must stay */
};

/* Operations that use `gpu`, which must outlive the watch. Blocks are those of
 * the heap. The caller runs muted (dcp_hook_mute) and with the program's
 * context current. */
struct dcp_access_ops dcp_access_gpu_ops(struct dcp_access_gpu *gpu);

#endif
