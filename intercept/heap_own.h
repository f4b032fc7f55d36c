/* SPDX-License-Identifier: Apache-2.0 */
/* For the OWN bodies: calling an original that an old driver may lack. */
#ifndef DCP_INTERCEPT_HEAP_OWN_H
#define DCP_INTERCEPT_HEAP_OWN_H

#define DCP_ASK(symbol, ...)                                                   \
    (dcp_real.symbol ? dcp_real.symbol(__VA_ARGS__) : CUDA_ERROR_NOT_SUPPORTED)

#endif
