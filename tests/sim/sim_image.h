/* SPDX-License-Identifier: Apache-2.0 */
/* A module image: a shared object given as bytes, or PTX text whose entries
 * are found among the kernels linked into the simulator. */
#ifndef DCP_SIM_SIM_IMAGE_H
#define DCP_SIM_SIM_IMAGE_H

#include "sim.h"

struct sim_image {
    void *dl;                          /* shared objects */
    int fd;
    const struct dcpsim_kernel *kernels;
    uint32_t count;
    struct dcpsim_kernel *parsed;      /* PTX: owned, as are names, params */
    struct sim_range **globals;
    uint32_t global_count;
};

/* CUDA_ERROR_INVALID_IMAGE, _NO_BINARY_FOR_GPU or _FILE_NOT_FOUND on failure.
 * The image's own headers or the terminating NUL say where it ends. */
CUresult sim_image_load(const void *data, struct sim_image **out);
CUresult sim_image_load_file(const char *path, struct sim_image **out);
void sim_image_free(struct sim_image *image);
const struct dcpsim_kernel *sim_image_find(const struct sim_image *image,
                                           const char *name);
CUresult sim_image_global(struct sim_image *image, const char *name,
                          CUdeviceptr *at, size_t *bytes);
/* sim_ptx.c: fills parsed, kernels, count. */
CUresult sim_ptx_parse(const char *text, struct sim_image *image);
void sim_ptx_free(struct sim_image *image);

#endif
