/* SPDX-License-Identifier: Apache-2.0 */
/* When each buffer of a graph is live and how much is live when. Computes,
 * never edits. */
#ifndef DCP_SRC_IR_LIVE_H
#define DCP_SRC_IR_LIVE_H

#include "src/ir.h"

/* A buffer is live from its alloc (without one: from the start) to its free
 * (without one: to the end), both included: a block that is freed by node 5
 * can be used again by node 6. All arrays lie in the arena that was given. */
struct dcp_live {
    /* by buffer */
    uint32_t *born, *dead;  /* first and last node; 0, node_count - 1 */
    uint32_t *alloc, *free; /* the nodes that begin and end it, or DCP_NONE */
    uint32_t *first, *last; /* nodes that refer to it, or DCP_NONE */
    /* by node */
    uint64_t *bytes;        /* live while it runs */

    uint64_t peak;      /* largest of bytes; with no nodes: all buffers */
    uint32_t peak_node; /* the first node with it, or DCP_NONE */
};

/* Linear. Accepts broken graphs: numbers out of range are ignored, the first
 * alloc and the first free count, a free before its alloc counts as none, and
 * sums stop at UINT64_MAX. DCP_NOMEM leaves *out undefined. */
enum dcp_status dcp_live_fill(const struct dcp_graph *graph,
                              struct dcp_arena *arena, struct dcp_live *out);

/* The most bytes live at once; 0 when memory is out. */
uint64_t dcp_live_peak(const struct dcp_graph *graph);

#endif
