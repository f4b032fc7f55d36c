/* SPDX-License-Identifier: Apache-2.0 */
/* The rest of the small driver (fake_memory.h): contexts, its own memory and
 * pools, and questions about memory. Its answers can be told from the heap's:
 * addresses lie in another range and figures are FAKE_ANSWER. */
#ifndef DCP_TESTS_FAKE_ASK_H
#define DCP_TESTS_FAKE_ASK_H

#include "tests/fake_memory.h"

#define FAKE_ADDRESS ((CUdeviceptr)0x900000000)
#define FAKE_ANSWER 90
#define FAKE_PRIMARY ((CUcontext)(uintptr_t)0xc0)
#define FAKE_OTHER ((CUcontext)(uintptr_t)0xd0)
#define FAKE_POOL ((CUmemoryPool)(uintptr_t)0xe0) /* the default one */

struct fake_ask {
    CUcontext current;
    CUmemoryPool current_pool;
    int retained;             /* holds on the primary context */
    bool capturing[FAKE_STREAMS];
    long asked;               /* calls that the heap did not answer */
    CUstream stream;          /* of the last one */
    CUdeviceptr freed;        /* by the last one */
    size_t trimmed;
};

extern struct fake_ask fake_ask;

/* After fake_start. */
void fake_ask_start(void);

#endif
