/* SPDX-License-Identifier: Apache-2.0 */
/* Allocation sequences of synthetic training steps, run on the heap and on a
 * model of the allocator that PyTorch uses by default. */
#ifndef DCP_TESTS_HEAP_STEP_H
#define DCP_TESTS_HEAP_STEP_H

#include <stddef.h>

struct heap_step_case {
    const char *name;
    int layers, width, batch, length, vocabulary;
    int element;      /* bytes of an activation */
    int vary;         /* lengths vary from step to step */
    int recompute;    /* activations are made again in the backward pass */
    int convolution;  /* sizes fall with depth */
};

struct heap_step_result {
    size_t live;      /* most bytes alive at once */
    size_t heap;      /* most frames of ours */
    size_t caching;   /* most segments of the model */
    long late_creates; /* frames made in the last step */
    long late_waits;   /* waits for the device in the last step */
};

enum { HEAP_STEP_SMALL = 3 }; /* needs about 110 MiB */
extern const struct heap_step_case heap_step_case[];
extern const int heap_step_cases;

void heap_step_run(const struct heap_step_case *test,
                   struct heap_step_result *result);

/* The model (heap_caching.c): one stream. */
void caching_start(void);
int caching_alloc(size_t bytes);  /* a handle */
void caching_free(int handle);
size_t caching_peak(void);

#endif
