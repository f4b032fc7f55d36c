/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "replay/lower.h"

#include "replay/staging.h"
#include "src/alloc.h"
#include "src/clock.h"
#include "src/log.h"

#include <stdlib.h>
#include <string.h>

/* Fewer nodes than this are cheaper to issue one by one. */
enum { NODES_MIN = 3 };

static struct dcp_segment *segments;
static CUstream capture_stream;
static uint32_t segment_count, node_count;

void
dcp_lower_count(uint32_t *count, uint32_t *nodes)
{
    *count = segment_count;
    *nodes = node_count;
}

static bool
stream_make(void)
{
    if (capture_stream)
        return true;
    return dcp_real.cuStreamCreate(&capture_stream, CU_STREAM_NON_BLOCKING) ==
           CUDA_SUCCESS;
}

/* The node that the last captured call made. */
static bool
last_node(CUgraphNode *node)
{
    CUstreamCaptureStatus status;
    CUgraph graph;
    const CUgraphNode *nodes = NULL;
    size_t count = 0;
    CUresult result;

    if (dcp_real.cuStreamGetCaptureInfo_v3) {
        const CUgraphEdgeData *edges = NULL;
        result = dcp_real.cuStreamGetCaptureInfo_v3(
            capture_stream, &status, NULL, &graph, &nodes, &edges, &count);
    } else {
        result = dcp_real.cuStreamGetCaptureInfo_v2(
            capture_stream, &status, NULL, &graph, &nodes, &count);
    }
    if (result != CUDA_SUCCESS || status != CU_STREAM_CAPTURE_STATUS_ACTIVE ||
        count != 1)
        return false;
    *node = nodes[0];
    return true;
}

/* What an upload reads in a graph is its stage, never the program's memory. */
static bool
copy_ready(struct dcp_node *node)
{
    struct dcp_call *call = &node->call;

    if (call->copy.dst_place != DCP_PLACE_DEVICE)
        return false;
    if (call->copy.src_place == DCP_PLACE_DEVICE)
        return true;
    call->copy.src = dcp_stage_reserve(&node->stage, call->copy.bytes);
    return call->copy.src != 0;
}

static bool
capture_nodes(struct dcp_segment *segment)
{
    for (uint32_t i = 0; i < segment->count; i++) {
        struct dcp_node *node = segment->nodes[i];
        CUresult result = dcp_node_issue(node, capture_stream);

        if (result != CUDA_SUCCESS || !last_node(&node->graph_node)) {
            dcp_debug("call %u (%s %s) cannot be captured: error %d",
                      node->depth, dcp_hook_info[node->hook].symbol,
                      node->op == DCP_CALL_LAUNCH ? node->call.launch.kernel->name
                                                  : "",
                      (int)result);
            segment->refused = i;
            return false;
        }
        segment->staged += node->stage != NULL;
    }
    return true;
}

/* Whatever happens, no capture stays open: waiting for the device would fail.
 * A stream that is no longer good for anything goes. */
static CUgraph
capture_end(void)
{
    CUgraph graph = NULL;

    if (dcp_real.cuStreamEndCapture(capture_stream, &graph) == CUDA_SUCCESS)
        return graph;
    if (dcp_real.cuStreamEndCapture(capture_stream, &graph) == CUDA_SUCCESS &&
        graph)
        dcp_real.cuGraphDestroy(graph);
    dcp_real.cuStreamDestroy_v2(capture_stream);
    capture_stream = NULL;
    return NULL;
}

static bool
capture(struct dcp_segment *segment)
{
    if (!stream_make() || dcp_real.cuStreamBeginCapture_v2(
                              capture_stream, CU_STREAM_CAPTURE_MODE_RELAXED) !=
                              CUDA_SUCCESS)
        return false;
    bool whole = capture_nodes(segment);
    segment->graph = capture_end();
    return whole && segment->graph;
}

/* A kernel node's parameters are kept so that an update need not ask. */
static bool
kernel_params(struct dcp_segment *segment)
{
    for (uint32_t i = 0; i < segment->count; i++) {
        struct dcp_node *node = segment->nodes[i];

        if (node->op != DCP_CALL_LAUNCH)
            continue;
        if (dcp_real.cuGraphKernelNodeGetParams_v2(
                node->graph_node, &node->params) != CUDA_SUCCESS)
            return false;
        node->params.kernelParams = node->pointers;
        node->params.extra = NULL;
    }
    return true;
}

static void
segment_free(struct dcp_segment *segment)
{
    if (segment->exec)
        dcp_real.cuGraphExecDestroy(segment->exec);
    if (segment->graph)
        dcp_real.cuGraphDestroy(segment->graph);
    free(segment->nodes);
    free(segment);
}

/* NULL when the driver refused; *refused is then the node that it refused, or
 * `count`. */
static struct dcp_segment *
segment_build(struct dcp_node **nodes, uint32_t count, uint32_t *refused)
{
    uint64_t begin = dcp_now_ns();
    struct dcp_segment *segment = dcp_calloc(1, sizeof *segment);

    *refused = count;
    if (!segment)
        return NULL;
    segment->refused = count;
    segment->nodes = dcp_malloc(count * sizeof(struct dcp_node *));
    if (!segment->nodes) {
        free(segment);
        return NULL;
    }
    memcpy(segment->nodes, nodes, count * sizeof(struct dcp_node *));
    segment->count = count;
    segment->stream = nodes[0]->stream;
    if (!capture(segment) || !kernel_params(segment) ||
        dcp_real.cuGraphInstantiateWithFlags(&segment->exec, segment->graph,
                                             0) != CUDA_SUCCESS) {
        *refused = segment->refused;
        segment_free(segment);
        return NULL;
    }
    dcp_real.cuGraphUpload(segment->exec, capture_stream);
    for (uint32_t i = 0; i < count; i++) {
        nodes[i]->segment = segment;
        nodes[i]->at = i;
        nodes[i]->stale = false;
    }
    segment->next = segments;
    segments = segment;
    segment_count++;
    node_count += count;
    segment->build_ns = dcp_now_ns() - begin;
    return segment;
}

void
dcp_segment_destroy(struct dcp_segment *segment)
{
    struct dcp_segment **link = &segments;

    while (*link != segment)
        link = &(*link)->next;
    *link = segment->next;
    for (uint32_t i = 0; i < segment->count; i++)
        segment->nodes[i]->segment = NULL;
    segment_count--;
    node_count -= segment->count;
    segment_free(segment);
}

void
dcp_lower_drop(struct dcp_node *node)
{
    struct dcp_node *at = node;

    for (;;) {
        if (at->segment)
            dcp_segment_destroy(at->segment);
        if (at->child) {
            at = at->child;
            continue;
        }
        while (at != node && !at->sibling)
            at = at->parent;
        if (at == node)
            return;
        at = at->sibling;
    }
}

CUresult
dcp_segment_update(struct dcp_segment *segment, struct dcp_node *node)
{
    const struct dcp_call *call = &node->call;

    if (node->op == DCP_CALL_LAUNCH) {
        CUDA_KERNEL_NODE_PARAMS *p = &node->params;
        p->gridDimX = call->launch.grid[0];
        p->gridDimY = call->launch.grid[1];
        p->gridDimZ = call->launch.grid[2];
        p->blockDimX = call->launch.block[0];
        p->blockDimY = call->launch.block[1];
        p->blockDimZ = call->launch.block[2];
        p->sharedMemBytes = call->launch.shared;
        return dcp_real.cuGraphExecKernelNodeSetParams_v2(
            segment->exec, node->graph_node, p);
    }
    CUcontext context = node->params.ctx;
    if (!context && dcp_real.cuCtxGetCurrent(&context) != CUDA_SUCCESS)
        return CUDA_ERROR_INVALID_CONTEXT;
    node->params.ctx = context;
    if (node->op == DCP_CALL_COPY) {
        bool from_host = call->copy.src_place != DCP_PLACE_DEVICE;
        bool to_host = call->copy.dst_place != DCP_PLACE_DEVICE;
        CUDA_MEMCPY3D p = {
            .srcMemoryType = from_host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE,
            .srcHost = from_host ? (const void *)call->copy.src : NULL,
            .srcDevice = from_host ? 0 : call->copy.src,
            .dstMemoryType = to_host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE,
            .dstHost = to_host ? (void *)call->copy.dst : NULL,
            .dstDevice = to_host ? 0 : call->copy.dst,
            .WidthInBytes = call->copy.bytes,
            .Height = 1,
            .Depth = 1,
        };
        return dcp_real.cuGraphExecMemcpyNodeSetParams(
            segment->exec, node->graph_node, &p, context);
    }
    CUDA_MEMSET_NODE_PARAMS p = {
        .dst = call->fill.dst,
        .value = call->fill.value,
        .elementSize = call->fill.element,
        .width = call->fill.width,
        .height = 1,
    };
    return dcp_real.cuGraphExecMemsetNodeSetParams(
        segment->exec, node->graph_node, &p, context);
}

CUresult
dcp_segment_launch(struct dcp_segment *segment)
{
    CUstream stream = (CUstream)segment->stream;
    CUresult result = dcp_real.cuGraphLaunch(segment->exec, stream);

    if (result != CUDA_SUCCESS)
        return result;
    segment->launches++;
    if (segment->staged)
        for (uint32_t i = 0; i < segment->count; i++)
            if (segment->nodes[i]->stage)
                dcp_stage_issued(segment->nodes[i]->stage, stream);
    return CUDA_SUCCESS;
}

/* --- cutting a path ------------------------------------------------------ */

struct cutter {
    struct dcp_node **run;
    uint32_t count, limit, built, room;
    uint64_t gpu_ns;
    const struct dcp_lower_options *options;
};

/* Builds a run; around a node that cannot be in a graph, in parts. */
static void
run_build(struct cutter *cutter, struct dcp_node **run, uint32_t count)
{
    uint32_t refused = 0;

    while (count >= NODES_MIN) {
        refused = 0;
        while (refused < count && (run[refused]->op != DCP_CALL_COPY ||
                                   copy_ready(run[refused])))
            refused++;
        if (refused == count) {
            if (segment_build(run, count, &refused))
                cutter->built++;
            if (refused == count)
                return;
        }
        run[refused]->refused = true; /* or it would be tried each time */
        run_build(cutter, run, refused);
        run += refused + 1;
        count -= refused + 1;
    }
}

static void
cut(struct cutter *cutter)
{
    uint32_t count = cutter->count;

    cutter->count = 0;
    cutter->gpu_ns = 0;
    if (count == 0)
        return;
    struct dcp_segment *old = cutter->run[0]->segment;
    bool same = old && old->count == count;
    for (uint32_t i = 0; same && i < count; i++)
        same = cutter->run[i] == old->nodes[i];
    if (same)
        return;
    for (uint32_t i = 0; i < count; i++)
        if (cutter->run[i]->segment)
            dcp_segment_destroy(cutter->run[i]->segment);
    run_build(cutter, cutter->run, count);
}

/* A branch begins after `node` when it has two children. */
static bool
branches(const struct dcp_node *node)
{
    return node->child && node->child->sibling;
}

static void
cut_at(struct cutter *cutter, struct dcp_node *node)
{
    const struct dcp_lower_options *o = cutter->options;
    bool foldable =
        node->fold == DCP_FOLD_NODE && !node->failed && !node->refused;

    if (foldable && cutter->count &&
        (cutter->run[0]->stream != node->stream ||
         cutter->count == cutter->limit || cutter->count == cutter->room ||
         cutter->gpu_ns > o->gpu_ns_max)) {
        cut(cutter);
        cutter->limit = cutter->limit * 2 > o->nodes_max ? o->nodes_max
                                                         : cutter->limit * 2;
    }
    if (foldable) {
        cutter->run[cutter->count++] = node;
        cutter->gpu_ns += node->gpu_ns;
    }
    else if (node->fold != DCP_FOLD_MEM || node->failed)
        cut(cutter);
    if (node->fold == DCP_FOLD_WAIT)
        cutter->limit = o->nodes_first;
    if (branches(node))
        cut(cutter);
}

uint32_t
dcp_lower_path(struct dcp_trie *trie, struct dcp_node *leaf,
               const struct dcp_lower_options *options)
{
    struct cutter cutter = {.limit = options->nodes_first,
                            .room = options->nodes_max,
                            .options = options};
    uint32_t length = leaf->depth;

    if (!stream_make())
        return 0;
    struct dcp_node **path = dcp_malloc((length + 1) * sizeof *path);
    cutter.run = dcp_malloc((options->nodes_max + 1) * sizeof *cutter.run);
    if (path && cutter.run) {
        uint32_t at = length;
        for (struct dcp_node *n = leaf; n != &trie->root; n = n->parent)
            path[--at] = n;
        for (uint32_t i = 0; i < length; i++)
            cut_at(&cutter, path[i]);
        cut(&cutter);
    }
    free(path);
    free(cutter.run);
    if (capture_stream)
        dcp_real.cuStreamSynchronize(capture_stream);
    return cutter.built;
}
