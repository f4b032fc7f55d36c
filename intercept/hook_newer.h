/* SPDX-License-Identifier: Apache-2.0 */
/* Types that the toolkit at hand may be too old for. A program made with a
 * newer one calls the functions that take them all the same, so their rows
 * always exist; pointers to these types are all that they need. Where cuda.h
 * has the type, the line says the same once more, which C allows. */
#ifndef DCP_INTERCEPT_HOOK_NEWER_H
#define DCP_INTERCEPT_HOOK_NEWER_H

typedef struct CUctxCreateParams_st CUctxCreateParams;           /* 12.5 */
typedef struct CUmemDecompressParams_st CUmemDecompressParams;   /* 12.8 */
typedef struct CUmemcpyAttributes_st CUmemcpyAttributes;         /* 12.8 */
typedef struct CUDA_MEMCPY3D_BATCH_OP_st CUDA_MEMCPY3D_BATCH_OP; /* 12.8 */
typedef struct CUstreamCigCaptureParams_st CUstreamCigCaptureParams;
typedef struct CUDA_FABRIC_COPY_BATCH_OP_st CUDA_FABRIC_COPY_BATCH_OP;

#if CUDA_VERSION < 13030
typedef void (*CUgraphRecaptureCallback)(void);
#endif

#endif
