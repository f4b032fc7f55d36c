/* SPDX-License-Identifier: Apache-2.0 */
/* A driver that does nothing but write down how it was called. It has every
 * function that hook.def knows, and the lookup rules of CUDA 13.0. */
#ifndef DCP_DOORS_DRIVER_H
#define DCP_DOORS_DRIVER_H

struct driver {
    const char *symbol; /* of the last call */
    unsigned calls;
    int result;         /* what the functions answer */
    int init_result;    /* what cuInit answers */
    _Alignas(16) unsigned char args[256];
};

/* Exported by the driver. Each thread has its own. */
struct driver *driver_get(void);

#endif
