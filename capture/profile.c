/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "capture/profile.h"

#include <stdlib.h>

void
dcp_profile_apply(struct dcp_graph *graph, const uint64_t *call_ns,
                  uint32_t count, bool best)
{
    for (uint32_t i = 0; i < graph->node_count; i++) {
        struct dcp_ir_node *node = &graph->nodes[i];

        if (!(dcp_op_properties(node->op) & DCP_IS_WORK) ||
            node->call >= count || call_ns[node->call] == UINT64_MAX)
            continue;
        if (!best || node->gpu_ns == 0 || call_ns[node->call] < node->gpu_ns)
            node->gpu_ns = call_ns[node->call];
    }
}

static void
add_launch(struct dcp_profile_kernel *k, uint64_t ns)
{
    k->least_ns = k->launches && k->least_ns < ns ? k->least_ns : ns;
    k->most_ns = k->most_ns > ns ? k->most_ns : ns;
    k->total_ns += ns;
    k->launches++;
}

static void
add_node(struct dcp_profile *sum, const struct dcp_ir_node *node)
{
    if (!(dcp_op_properties(node->op) & DCP_IS_WORK))
        return;
    if (node->gpu_ns == 0) {
        sum->unmeasured++;
        return;
    }
    sum->measured++;
    sum->total_ns += node->gpu_ns;
    if (node->part < DCP_PART_COUNT)
        sum->part_ns[node->part] += node->gpu_ns;
    if (node->op == DCP_OP_LAUNCH) {
        sum->launch_ns += node->gpu_ns;
        add_launch(&sum->kernels[node->launch.kernel], node->gpu_ns);
    } else if (node->op == DCP_OP_COPY) {
        sum->copy_ns += node->gpu_ns;
    } else if (node->op == DCP_OP_FILL) {
        sum->fill_ns += node->gpu_ns;
    }
}

static int
longest_first(const void *a, const void *b)
{
    const struct dcp_profile_kernel *x = a, *y = b;

    if (x->total_ns != y->total_ns)
        return x->total_ns > y->total_ns ? -1 : 1;
    return x->kernel < y->kernel ? -1 : x->kernel > y->kernel;
}

enum dcp_status
dcp_profile_sum(const struct dcp_graph *graph, struct dcp_profile *out,
                struct dcp_arena *arena)
{
    struct dcp_profile sum = {0};

    sum.kernels =
        dcp_arena_alloc(arena, (graph->kernel_count + 1) * sizeof *sum.kernels);
    if (!sum.kernels)
        return DCP_NOMEM;
    for (uint32_t i = 0; i < graph->kernel_count; i++)
        sum.kernels[i].kernel = i;
    for (uint32_t i = 0; i < graph->node_count; i++)
        add_node(&sum, &graph->nodes[i]);
    qsort(sum.kernels, graph->kernel_count, sizeof *sum.kernels, longest_first);
    while (sum.kernel_count < graph->kernel_count &&
           sum.kernels[sum.kernel_count].launches)
        sum.kernel_count++;
    *out = sum;
    return DCP_OK;
}
