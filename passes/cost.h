/* SPDX-License-Identifier: Apache-2.0 */
/* What a node will cost: its measured time where there is one, else a
 * prediction from curves that were measured or are typical of one H200. */
#ifndef DCP_PASSES_COST_H
#define DCP_PASSES_COST_H

#include "src/ir.h"
#include "src/status.h"

#include <stdint.h>

enum { DCP_CURVE_POINTS = 24 };

/* Time over size, straight between the points; below the first point the
 * first one's time, beyond the last the slope of the last two (of one point:
 * in proportion). No points: no time. */
struct dcp_curve {
    uint32_t count;
    struct {
        uint64_t bytes, ns;
    } points[DCP_CURVE_POINTS]; /* by bytes, rising; ns never falls */
};

/* What has a curve. Collectives are by the bytes of the whole, over all
 * ranks; a fetch is an upload, an evict a download. */
enum dcp_curve_kind {
    DCP_CURVE_UPLOAD,   /* pinned host memory to device */
    DCP_CURVE_DOWNLOAD, /* device to pinned host memory */
    DCP_CURVE_COPY,     /* device to device */
    DCP_CURVE_FILL,
    DCP_CURVE_GATHER,
    DCP_CURVE_SCATTER,
    DCP_CURVE_REDUCE,
    DCP_CURVE_BCAST,
    DCP_CURVE_COUNT
};

struct dcp_cost {
    struct dcp_curve curves[DCP_CURVE_COUNT];
    uint64_t kernel_ns; /* of a kernel that was never measured */
    uint64_t node_ns;   /* gap between two nodes of one stream of a graph */
    uint64_t issue_ns;  /* host time a node, followed */
};

/* Typical figures for `world` GPUs of one host (at least 1). */
void dcp_cost_default(struct dcp_cost *cost, uint32_t world);

/* Adds a measured point, replacing one of the same size; the neighbours are
 * lowered or raised where the curve would else fall. DCP_RANGE when the curve
 * is full. */
enum dcp_status dcp_curve_add(struct dcp_curve *curve, uint64_t bytes,
                              uint64_t ns);

/* Predicted time; never overflows. */
uint64_t dcp_curve_at(const struct dcp_curve *curve, uint64_t bytes);

/* Nanoseconds that a node keeps its stream busy: 0 for what is no work. */
uint64_t dcp_cost_node(const struct dcp_cost *cost,
                       const struct dcp_graph *graph,
                       const struct dcp_ir_node *node);

/* Bytes that a node of ours moves: of all its references together. */
uint64_t dcp_cost_bytes(const struct dcp_graph *graph,
                        const struct dcp_ir_node *node);

#endif
