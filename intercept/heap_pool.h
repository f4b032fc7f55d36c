/* SPDX-License-Identifier: Apache-2.0 */
/* The driver's memory pools whose blocks the heap serves: the device's default
 * pool and plain device pools that the program makes. Other pools (for host
 * memory, for sharing, with a size limit) stay the driver's. */
#ifndef DCP_INTERCEPT_HEAP_POOL_H
#define DCP_INTERCEPT_HEAP_POOL_H

#include "intercept/hook_cuda.h"

/* The heap's number for a pool; 0 when the driver has to serve it. */
unsigned dcp_pool_number(CUmemoryPool pool);

/* The number of the device's current pool. */
unsigned dcp_pool_current(void);

/* The pool behind a number; NULL for 0. */
CUmemoryPool dcp_pool_handle(unsigned number);

#endif
