/* SPDX-License-Identifier: Apache-2.0 */
/* What the two halves of the verifier share. Everybody else uses ir.h. */
#ifndef DCP_SRC_IR_VERIFY_H
#define DCP_SRC_IR_VERIFY_H

#include "src/ir.h"

struct dcp_verifier {
    const struct dcp_graph *graph;
    struct dcp_ir_faults *faults; /* NULL: only whether there are any */
    struct dcp_arena scratch;
    uint64_t broken; /* faults found */
    bool no_memory;
};

/* Notes a fault. */
void dcp_verify_fault(struct dcp_verifier *v, unsigned where, uint32_t index,
                      const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* ir_verify_place.c: planned addresses of buffers that are live together. */
void dcp_verify_places(struct dcp_verifier *v);

#endif
