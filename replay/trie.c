/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "replay/trie.h"

#include "replay/staging.h"

#include <string.h>

void
dcp_trie_init(struct dcp_trie *trie)
{
    memset(trie, 0, sizeof *trie);
    trie->root.place = -1;
}

static bool
node_matches(const struct dcp_node *node, const struct dcp_view *view,
             uint64_t attrs_hash)
{
    if (node->op != view->op || node->stream != view->stream ||
        node->hook != view->hook)
        return false;
    if (view->op == DCP_CALL_LAUNCH)
        return node->handle == view->launch.handle &&
               node->attrs_hash == attrs_hash;
    if (view->op == DCP_CALL_COPY)
        return node->call.copy.dst_place == view->copy.dst_place &&
               node->call.copy.src_place == view->copy.src_place;
    return true;
}

struct dcp_node *
dcp_trie_find(struct dcp_node *from, const struct dcp_view *view,
              uint64_t attrs_hash)
{
    struct dcp_node *node = from->child, *before = NULL;

    while (node && !node_matches(node, view, attrs_hash)) {
        before = node;
        node = node->sibling;
    }
    if (node && before) {
        before->sibling = node->sibling;
        node->sibling = from->child;
        from->child = node;
    }
    return node;
}

static bool
node_keep_launch(struct dcp_node *node, const struct dcp_view *view,
                 struct dcp_arena *arena)
{
    const struct dcp_kernel *kernel = node->call.launch.kernel;
    bool graphable;

    node->handle = view->launch.handle;
    node->attrs_hash = dcp_attrs_hash(view->launch.attrs,
                                      view->launch.attr_count, &graphable);
    node->attr_count = view->launch.attr_count;
    if (node->attr_count) {
        node->attrs = dcp_arena_copy(arena, view->launch.attrs,
                                     node->attr_count * sizeof *node->attrs);
        if (!node->attrs)
            return false;
    }
    /* A collective has a host side too, which waits for its kernels: they go
     * out when the program sends them. */
    if (!kernel->known || !graphable || strstr(kernel->name, "ncclDevKernel") ||
        strstr(kernel->name, "ncclKernel"))
        node->fold = DCP_FOLD_EAGER;
    node->pointers =
        dcp_arena_alloc(arena, (kernel->param_count + 1) * sizeof(void *));
    if (!node->pointers)
        return false;
    for (uint32_t i = 0; i < kernel->param_count; i++)
        node->pointers[i] = node->call.launch.params + kernel->params[i].offset;
    return true;
}

/* The branch that a child of `from` belongs to: the one being recorded, or a
 * new one. */
static struct dcp_branch *
branch_of(struct dcp_trie *trie, struct dcp_node *from)
{
    struct dcp_arena arena = {0};

    if (from->branch && from->branch->tail == from)
        return from->branch;
    struct dcp_branch *branch = dcp_arena_alloc(&arena, sizeof *branch);
    if (!branch)
        return NULL;
    branch->arena = arena;
    trie->bytes += arena.total;
    return branch;
}

static void
branch_release(struct dcp_trie *trie, struct dcp_branch *branch)
{
    struct dcp_arena arena = branch->arena;

    trie->bytes -= arena.total;
    dcp_arena_release(&arena);
}

struct dcp_node *
dcp_trie_add(struct dcp_trie *trie, struct dcp_node *from,
             const struct dcp_view *view)
{
    struct dcp_branch *branch = branch_of(trie, from);
    if (!branch)
        return NULL;
    size_t before = branch->arena.total;
    struct dcp_node *node = dcp_arena_alloc(&branch->arena, sizeof *node);
    if (!node) {
        if (!branch->head)
            branch_release(trie, branch);
        return NULL;
    }
    node->branch = branch;
    node->op = view->op;
    node->fold = view->fold;
    node->hook = view->hook;
    node->stream = view->stream;
    node->place = -1;
    bool kept = dcp_call_record(&node->call, view, &branch->arena) &&
                (view->op != DCP_CALL_LAUNCH ||
                 node_keep_launch(node, view, &branch->arena));
    trie->bytes += branch->arena.total - before;
    if (!kept) {
        if (!branch->head)
            branch_release(trie, branch);
        return NULL;
    }
    /* The per-thread stream means another stream in another thread, and a
     * copy of nothing has no graph node. */
    if (node->fold == DCP_FOLD_NODE &&
        (node->stream == (uint64_t)CU_STREAM_PER_THREAD ||
         (node->op == DCP_CALL_COPY && view->copy.bytes == 0) ||
         (node->op == DCP_CALL_FILL && view->fill.width == 0)))
        node->fold = DCP_FOLD_EAGER;
    node->depth = from->depth + 1;
    node->parent = from;
    node->sibling = from->child;
    from->child = node;
    if (!branch->head)
        branch->head = node;
    branch->tail = node;
    trie->nodes++;
    return node;
}

static int
take_copy(struct dcp_node *node, const struct dcp_view *view)
{
    struct dcp_call *call = &node->call;
    int changed = call->copy.dst != view->copy.dst ||
                  call->copy.bytes != view->copy.bytes;

    if (view->copy.bytes == 0)
        return -1;
    call->copy.dst = view->copy.dst;
    call->copy.bytes = view->copy.bytes;
    if (view->copy.src_place == DCP_PLACE_DEVICE || !dcp_stage_wanted(view)) {
        changed |= call->copy.src != view->copy.src;
        call->copy.src = view->copy.src;
        return changed;
    }
    uint64_t staged = dcp_stage_put(&node->stage, view);
    if (!staged)
        return -1;
    changed |= call->copy.src != staged;
    call->copy.src = staged;
    return changed;
}

static int
take_fill(struct dcp_node *node, const struct dcp_view *view)
{
    struct dcp_call *call = &node->call;
    int changed = call->fill.dst != view->fill.dst ||
                  call->fill.value != view->fill.value ||
                  call->fill.width != view->fill.width;

    if (view->fill.width == 0)
        return -1;
    call->fill.dst = view->fill.dst;
    call->fill.value = view->fill.value;
    call->fill.width = view->fill.width;
    return changed;
}

int
dcp_node_take(struct dcp_node *node, const struct dcp_view *view)
{
    struct dcp_call *call = &node->call;
    int changed = 0;

    switch ((enum dcp_call_op)node->op) {
    case DCP_CALL_LAUNCH:
        for (unsigned i = 0; i < 3; i++)
            changed |= (call->launch.grid[i] ^ view->launch.grid[i]) |
                       (call->launch.block[i] ^ view->launch.block[i]);
        changed |= call->launch.shared ^ view->launch.shared;
        if (changed) {
            memcpy(call->launch.grid, view->launch.grid, 12);
            memcpy(call->launch.block, view->launch.block, 12);
            call->launch.shared = view->launch.shared;
        }
        int packed = dcp_params_pack(call->launch.kernel, view->launch.params,
                                     view->launch.extra, call->launch.params);
        return packed < 0 ? packed : (changed != 0) | packed;
    case DCP_CALL_COPY:
        return take_copy(node, view);
    case DCP_CALL_FILL:
        return take_fill(node, view);
    default:
        return 0;
    }
}

void
dcp_trie_remove(struct dcp_trie *trie, struct dcp_branch *branch)
{
    struct dcp_node *node = branch->head, *stop = node->parent;
    struct dcp_node **link = &stop->child;

    while (*link != node)
        link = &(*link)->sibling;
    *link = node->sibling;
    /* Children first, without recursion: a path may be very long. A branch
     * is released with its head, by which time nothing of it is left. */
    while (node != stop) {
        if (node->child) {
            struct dcp_node *down = node->child;
            node->child = down->sibling;
            node = down;
            continue;
        }
        struct dcp_node *up = node->parent;
        dcp_stage_drop(&node->stage);
        trie->nodes--;
        if (node->branch->head == node)
            branch_release(trie, node->branch);
        node = up;
    }
}

static CUresult
issue_launch(struct dcp_node *node, CUstream stream)
{
    const struct dcp_call *call = &node->call;

    if (node->hook == DCP_HOOK_cuLaunchKernelEx) {
        CUlaunchConfig config = {
            .gridDimX = call->launch.grid[0],
            .gridDimY = call->launch.grid[1],
            .gridDimZ = call->launch.grid[2],
            .blockDimX = call->launch.block[0],
            .blockDimY = call->launch.block[1],
            .blockDimZ = call->launch.block[2],
            .sharedMemBytes = call->launch.shared,
            .hStream = stream,
            .attrs = node->attrs,
            .numAttrs = node->attr_count,
        };
        return dcp_real.cuLaunchKernelEx(&config, node->handle, node->pointers,
                                         NULL);
    }
    if (node->hook == DCP_HOOK_cuLaunchCooperativeKernel)
        return dcp_real.cuLaunchCooperativeKernel(
            node->handle, call->launch.grid[0], call->launch.grid[1],
            call->launch.grid[2], call->launch.block[0], call->launch.block[1],
            call->launch.block[2], call->launch.shared, stream, node->pointers);
    return dcp_real.cuLaunchKernel(
        node->handle, call->launch.grid[0], call->launch.grid[1],
        call->launch.grid[2], call->launch.block[0], call->launch.block[1],
        call->launch.block[2], call->launch.shared, stream, node->pointers,
        NULL);
}

static CUresult
issue_copy(const struct dcp_call *call, CUstream stream)
{
    if (call->copy.dst_place != DCP_PLACE_DEVICE)
        return dcp_real.cuMemcpyDtoHAsync_v2((void *)call->copy.dst,
                                             call->copy.src, call->copy.bytes,
                                             stream);
    if (call->copy.src_place != DCP_PLACE_DEVICE)
        return dcp_real.cuMemcpyHtoDAsync_v2(call->copy.dst,
                                             (const void *)call->copy.src,
                                             call->copy.bytes, stream);
    return dcp_real.cuMemcpyDtoDAsync_v2(call->copy.dst, call->copy.src,
                                         call->copy.bytes, stream);
}

CUresult
dcp_node_issue(struct dcp_node *node, CUstream stream)
{
    const struct dcp_call *call = &node->call;

    if (!stream)
        stream = (CUstream)node->stream;
    if (node->op == DCP_CALL_LAUNCH)
        return issue_launch(node, stream);
    if (node->op == DCP_CALL_COPY)
        return issue_copy(call, stream);
    if (call->fill.element == 1)
        return dcp_real.cuMemsetD8Async(call->fill.dst,
                                        (unsigned char)call->fill.value,
                                        call->fill.width, stream);
    if (call->fill.element == 2)
        return dcp_real.cuMemsetD16Async(call->fill.dst,
                                         (unsigned short)call->fill.value,
                                         call->fill.width, stream);
    return dcp_real.cuMemsetD32Async(call->fill.dst, call->fill.value,
                                     call->fill.width, stream);
}
