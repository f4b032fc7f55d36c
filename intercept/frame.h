/* SPDX-License-Identifier: Apache-2.0 */
/* Frames: physical memory from cuMemCreate, on the device or in host memory,
 * and its mappings. A frame is mapped whole or not at all. Everything that
 * the library takes from the GPU goes through here, so that the budget and
 * the figures hold for all of it. Any thread; a frame itself has one owner at
 * a time. The callers have made sure that no work uses what is unmapped. */
#ifndef DCP_INTERCEPT_FRAME_H
#define DCP_INTERCEPT_FRAME_H

#include "intercept/hook_cuda.h"

#include <stdbool.h>
#include <stddef.h>

struct dcp_frame {
    CUmemGenericAllocationHandle handle;
    CUdeviceptr at; /* where it is mapped; 0: nowhere */
    size_t bytes;
    bool host;
};

struct dcp_frame_stats {
    size_t device, device_peak; /* bytes of device frames held */
    size_t host, host_peak;     /* bytes of host frames held */
};

/* Learns what `device` can do: page size, sharing by file descriptor, host
 * frames. NOT_SUPPORTED where there is no virtual memory management. */
CUresult dcp_frame_setup(CUdevice device);

/* The device given to dcp_frame_setup. */
CUdevice dcp_frame_device(void);

/* The granularity of frames and mappings in bytes; 0 before the setup. */
size_t dcp_frame_page(void);

/* True when host frames can be made. */
bool dcp_frame_has_host(void);

/* True when frames may be exported as file descriptors. */
bool dcp_frame_has_fd(void);

/* The most device bytes that may be held; 0: no limit of ours. */
void dcp_frame_limit(size_t bytes);

size_t dcp_frame_get_limit(void);

/* Device bytes that the limit still allows; SIZE_MAX without a limit. */
size_t dcp_frame_room(void);

/* A frame of `bytes` (a multiple of the page), not mapped. OUT_OF_MEMORY when
 * the limit, the device or the host's free memory does not allow it. */
CUresult dcp_frame_create(struct dcp_frame *frame, size_t bytes, bool host);

/* Maps the frame at `at`, inside a reserved range, readable and writable by
 * the device (a host frame by the host too). */
CUresult dcp_frame_map(struct dcp_frame *frame, CUdeviceptr at);

/* Takes the mapping away; success when there is none. */
CUresult dcp_frame_unmap(struct dcp_frame *frame);

/* Unmaps and gives the memory back. On an error the frame is still mapped and
 * stays as it is. A handle that the driver does not take back afterwards is no
 * error: it is kept, and tried again later. */
CUresult dcp_frame_release(struct dcp_frame *frame);

/* Tries again to give back what the driver did not take. */
void dcp_frame_settle(void);

/* Creates and maps. On an error there is no frame; if frame->at is not 0
 * then, the driver did not undo the mapping and the addresses are lost. */
CUresult dcp_frame_back(struct dcp_frame *frame, CUdeviceptr at, size_t bytes,
                        bool host);

void dcp_frame_get_stats(struct dcp_frame_stats *out);

/* Sets the peaks to what is held now. */
void dcp_frame_reset_peak(void);

#endif
