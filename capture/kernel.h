/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels as the program launches them: a handle (CUfunction or CUkernel),
 * its name and the layout of its parameters. */
#ifndef DCP_CAPTURE_KERNEL_H
#define DCP_CAPTURE_KERNEL_H

#include "intercept/hook_cuda.h"

#include <stdbool.h>
#include <stdint.h>

struct dcp_kernel_param {
    uint32_t offset, bytes;
};

struct dcp_kernel {
    CUfunction handle;   /* as passed to the launch; may be a CUkernel */
    const char *name;    /* mangled; "?" where the driver does not say */
    uint32_t id;         /* from 1, in order of first launch */
    uint32_t param_count;
    uint32_t bytes;      /* end of the last parameter */
    bool known;          /* the layout was found */
    const struct dcp_kernel_param *params;
};

/* The kernel behind a handle; asks the driver on the first use of a handle
 * (12.4 or newer: cuKernelGetParamInfo, then cuFuncGetParamInfo), leaves no
 * error state behind. NULL when memory is out. Caller holds the session lock. */
const struct dcp_kernel *dcp_kernel_get(CUfunction handle);

/* Forgets every handle (a module or library was unloaded). The structs stay
 * valid, but are no longer found. */
void dcp_kernel_forget(void);

#endif
