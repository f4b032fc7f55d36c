/* SPDX-License-Identifier: Apache-2.0 */
/* The only place that includes cuda.h. The macro turns off the header's
 * renaming (cuMemAlloc -> cuMemAlloc_v2), so that each row names exactly the
 * symbol that it exports, and declares the older forms too. */
#ifndef DCP_INTERCEPT_HOOK_CUDA_H
#define DCP_INTERCEPT_HOOK_CUDA_H

#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

#include "intercept/hook_newer.h"

#endif
