/* SPDX-License-Identifier: Apache-2.0 */
/* The part of the small driver (fake_memory.h) that has work: kernels, copies
 * and fills, issued or captured into graphs. Nothing is computed; what reaches
 * a stream is noted, in order, with its values. Keeps the driver's rules
 * (fake.broken counts offences). */
#ifndef DCP_TESTS_FAKE_GRAPH_H
#define DCP_TESTS_FAKE_GRAPH_H

#include "tests/fake_memory.h"

/* A kernel; its address is the CUfunction (or CUkernel) handle. */
struct fake_kernel {
    const char *name;
    unsigned count;
    struct {
        size_t offset, bytes;
    } param[8];
    bool is_kernel;  /* a CUkernel: cuFunc... does not know it */
    bool uncaptured; /* cannot be part of a graph */
    bool nameless;   /* no such handle */
};

/* One piece of work, as it reached a stream. */
struct fake_work {
    char kind; /* k: kernel, c: copy, f: fill */
    const struct fake_kernel *kernel;
    CUstream stream;
    uint64_t value[4]; /* kernel: grid x, first parameter word, attributes,
                          cooperative; copy: to, from, bytes; fill: to,
                          value, width, bytes an element */
    CUgraphExec exec;  /* NULL: issued in place */
};

enum { FAKE_WORK = 8192 };

struct fake_graph {
    int graphs, execs, launches, updates, hosts; /* hosts: pinned blocks */
    bool refuse_instantiate, refuse_launch, refuse_update, refuse_begin;
    bool refuse_host;
    unsigned work_count;
    struct fake_work work[FAKE_WORK];
};

extern struct fake_graph fake_graph;

/* After fake_start. */
void fake_graph_start(void);

/* --- between fake_work.c and fake_graph.c --- */

void fake_work_start(void);

/* A piece of work comes to a stream. */
CUresult fake_work_add(const struct fake_work *work);

/* The first parameter's bytes, at most eight. */
uint64_t fake_first_word(const struct fake_kernel *kernel, void **params);

/* True when the stream is being captured; then the work goes into the graph,
 * or *result says why not. */
bool fake_graph_captures(CUstream stream);
bool fake_graph_takes(const struct fake_work *work, CUresult *result);

#endif
