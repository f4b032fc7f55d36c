/* SPDX-License-Identifier: Apache-2.0 */
/* What a module image for the simulated driver looks like. An image is a
 * shared object of the host's kind (its bytes are given to cuModuleLoadData or
 * cuLibraryLoadData, its path to cuModuleLoad or cuLibraryLoadFromFile) that
 * exports
 *
 *     const struct dcpsim_kernel dcpsim_kernels[];   ended by a NULL name
 *
 * and, if it likes, any variables with default visibility, which
 * cuModuleGetGlobal finds by name. A kernel is an ordinary function: it does
 * the work of the whole grid in one call, on the simulator's worker thread,
 * when the stream has come to it. Device pointers are plain pointers there.
 * A kernel must not call the driver. */
#ifndef DCP_SIM_DCPSIM_H
#define DCP_SIM_DCPSIM_H

#include <stdint.h>

struct dcpsim_launch {
    uint32_t grid[3], block[3];
    uint32_t shared_bytes; /* static and dynamic together */
    void *shared;          /* that many bytes, 128-aligned, not cleared */
    void *const *params;   /* params[i] points at the i-th parameter's bytes */
    const void *packed;    /* all parameters as laid out, 64-aligned */
};

/* The same layout as the GPU's: natural alignment, structs as in C. */
struct dcpsim_param {
    uint32_t offset, bytes;
};

struct dcpsim_kernel {
    const char *name; /* as given to cuModuleGetFunction */
    void (*run)(const struct dcpsim_launch *launch);
    uint32_t param_count;
    uint32_t shared_bytes; /* static shared memory */
    const struct dcpsim_param *params;
};

/* Kernels linked into the simulator itself: what the entries of a PTX image
 * (text) resolve to by name; the parameter layout then comes from the PTX, and
 * param_count and params here are not read. Ended by a NULL name. The
 * simulator refers to it weakly. */
extern const struct dcpsim_kernel dcpsim_builtin_kernels[];

#endif
