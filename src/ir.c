/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "src/ir.h"

#include <stdlib.h>
#include <string.h>

/* --- growth -------------------------------------------------------------- */

/* Room for at least `want` items in *list. What a growing list leaves behind
 * stays in the arena: at most as much again as the list itself. */
static bool
grow(struct dcp_arena *arena, void **list, uint32_t *room, uint32_t used,
     uint32_t want, size_t item)
{
    uint64_t next = *room ? 2 * (uint64_t)*room : 16;

    if (want <= *room)
        return true;
    if (want == DCP_NONE)
        return false;
    if (next < want)
        next = want;
    if (next >= DCP_NONE)
        next = DCP_NONE - 1;
    void *fresh = dcp_arena_alloc(arena, next * item);
    if (!fresh)
        return false;
    if (used)
        memcpy(fresh, *list, used * item);
    *list = fresh;
    *room = (uint32_t)next;
    return true;
}

#define GROW(graph, what, want)                                                \
    grow(&(graph)->arena, (void **)&(graph)->what##s, &(graph)->what##_room,   \
         (graph)->what##_count, want, sizeof *(graph)->what##s)

enum dcp_status
dcp_graph_reserve(struct dcp_graph *graph, uint32_t nodes, uint32_t buffers)
{
    if (!GROW(graph, node, nodes) || !GROW(graph, buffer, buffers))
        return DCP_NOMEM;
    return DCP_OK;
}

/* --- building ------------------------------------------------------------ */

struct dcp_graph *
dcp_graph_create(void)
{
    struct dcp_arena arena = { 0 };
    struct dcp_graph *graph = dcp_arena_alloc(&arena, sizeof *graph);

    if (!graph)
        return NULL;
    graph->arena = arena;
    graph->world = 1;
    graph->micro_count = 1;
    return graph;
}

void
dcp_graph_destroy(struct dcp_graph *graph)
{
    if (!graph)
        return;
    /* the graph lies in its own arena */
    struct dcp_arena arena = graph->arena;
    dcp_arena_release(&arena);
}

uint32_t
dcp_ir_add_buffer(struct dcp_graph *graph, enum dcp_role role, uint64_t bytes,
                  bool persistent, const char *label)
{
    const char *copy = NULL;

    if (!GROW(graph, buffer, graph->buffer_count + 1))
        return DCP_NONE;
    if (label && !(copy = dcp_arena_strdup(&graph->arena, label)))
        return DCP_NONE;
    graph->buffers[graph->buffer_count] = (struct dcp_ir_buffer) {
        .role = role, .persistent = persistent, .bytes = bytes,
        .place = DCP_NO_PLACE, .label = copy,
    };
    return graph->buffer_count++;
}

uint32_t
dcp_ir_add_kernel(struct dcp_graph *graph, const char *name, bool known,
                  const struct dcp_ir_param *params, uint32_t count)
{
    struct dcp_ir_param *layout = NULL;
    char *copy;

    if (!known)
        count = 0;
    if (!GROW(graph, kernel, graph->kernel_count + 1) ||
        !(copy = dcp_arena_strdup(&graph->arena, name)))
        return DCP_NONE;
    if (count && !(layout = dcp_arena_copy(&graph->arena, params,
                                           count * sizeof *params)))
        return DCP_NONE;
    graph->kernels[graph->kernel_count] = (struct dcp_ir_kernel) {
        .name = copy, .known = known, .param_count = count, .params = layout,
    };
    return graph->kernel_count++;
}

uint32_t
dcp_ir_add_stream(struct dcp_graph *graph)
{
    return graph->stream_count == DCP_NONE ? DCP_NONE : graph->stream_count++;
}

uint32_t
dcp_ir_add_event(struct dcp_graph *graph)
{
    return graph->event_count == DCP_NONE ? DCP_NONE : graph->event_count++;
}

static void
set_defaults(struct dcp_ir_node *node)
{
    switch (node->op) {
    case DCP_OP_LAUNCH:
        node->launch.kernel = DCP_NONE;
        for (int i = 0; i < 3; i++)
            node->launch.grid[i] = node->launch.block[i] = 1;
        break;
    case DCP_OP_COPY:
        node->copy.to = node->copy.from = DCP_IR_DEVICE;
        break;
    case DCP_OP_FILL:
        node->fill.height = 1;
        node->fill.element = 1;
        break;
    case DCP_OP_RECORD:
    case DCP_OP_WAIT:
    case DCP_OP_HOST:
    case DCP_OP_OPAQUE:
        node->sync_on.event = DCP_NONE;
        break;
    case DCP_OP_ALLOC:
    case DCP_OP_FREE:
        node->memory.buffer = DCP_NONE;
        break;
    default:
        node->move.dtype = DCP_DTYPE_U8;
    }
}

struct dcp_ir_node *
dcp_ir_add_node(struct dcp_graph *graph, enum dcp_op op, uint32_t stream)
{
    if (!GROW(graph, node, graph->node_count + 1))
        return NULL;
    struct dcp_ir_node *node = &graph->nodes[graph->node_count++];
    memset(node, 0, sizeof *node);
    node->op = op;
    node->stream = stream;
    node->call = DCP_NONE;
    set_defaults(node);
    return node;
}

struct dcp_ir_ref *
dcp_ir_add_refs(struct dcp_graph *graph, struct dcp_ir_node *node,
                uint32_t count)
{
    struct dcp_ir_ref *refs;

    refs = dcp_arena_alloc(&graph->arena, count * sizeof *refs);
    if (!refs)
        return NULL;
    node->refs = refs;
    node->ref_count = count;
    return refs;
}

uint32_t *
dcp_ir_add_after(struct dcp_graph *graph, struct dcp_ir_node *node,
                 uint32_t count)
{
    uint32_t *after = dcp_arena_alloc(&graph->arena, count * sizeof *after);

    if (!after)
        return NULL;
    node->after = after;
    node->after_count = count;
    return after;
}

/* --- copying ------------------------------------------------------------- */

static bool
copy_buffers(struct dcp_graph *to, const struct dcp_graph *from)
{
    for (uint32_t i = 0; i < from->buffer_count; i++) {
        const struct dcp_ir_buffer *b = &from->buffers[i];

        if (dcp_ir_add_buffer(to, b->role, b->bytes, b->persistent,
                              b->label) == DCP_NONE)
            return false;
        to->buffers[i].place = b->place;
    }
    return true;
}

static bool
copy_kernels(struct dcp_graph *to, const struct dcp_graph *from)
{
    for (uint32_t i = 0; i < from->kernel_count; i++) {
        const struct dcp_ir_kernel *k = &from->kernels[i];

        if (dcp_ir_add_kernel(to, k->name, k->known, k->params,
                              k->param_count) == DCP_NONE)
            return false;
    }
    return true;
}

/* The one string that a node can hold. */
static const char **
node_label(struct dcp_ir_node *node)
{
    return node->op == DCP_OP_HOST || node->op == DCP_OP_OPAQUE
               ? &node->sync_on.label : NULL;
}

static bool
copy_nodes(struct dcp_graph *to, const struct dcp_graph *from)
{
    for (uint32_t i = 0; i < from->node_count; i++) {
        const struct dcp_ir_node *n = &from->nodes[i];
        struct dcp_ir_node *copy = dcp_ir_add_node(to, n->op, n->stream);

        if (!copy)
            return false;
        *copy = *n;
        copy->refs = dcp_arena_copy(&to->arena, n->refs,
                                    n->ref_count * sizeof *n->refs);
        copy->after = dcp_arena_copy(&to->arena, n->after,
                                     n->after_count * sizeof *n->after);
        if (!copy->refs || !copy->after)
            return false;
        const char **label = node_label(copy);
        if (label && *label &&
            !(*label = dcp_arena_strdup(&to->arena, *label)))
            return false;
    }
    return true;
}

struct dcp_graph *
dcp_graph_clone(const struct dcp_graph *graph)
{
    struct dcp_graph *copy = dcp_graph_create();

    if (!copy)
        return NULL;
    if (dcp_graph_reserve(copy, graph->node_count, graph->buffer_count) ||
        !copy_buffers(copy, graph) || !copy_kernels(copy, graph) ||
        !copy_nodes(copy, graph)) {
        dcp_graph_destroy(copy);
        return NULL;
    }
    copy->key = graph->key;
    copy->rank = graph->rank;
    copy->world = graph->world;
    copy->micro_count = graph->micro_count;
    copy->arena_bytes = graph->arena_bytes;
    copy->stream_count = graph->stream_count;
    copy->event_count = graph->event_count;
    return copy;
}

/* --- comparing ----------------------------------------------------------- */

static bool
text_equal(const char *a, const char *b)
{
    return a && b ? !strcmp(a, b) : a == b;
}

static bool
buffer_equal(const struct dcp_ir_buffer *a, const struct dcp_ir_buffer *b)
{
    return a->role == b->role && a->persistent == b->persistent &&
           a->bytes == b->bytes && a->place == b->place &&
           text_equal(a->label, b->label);
}

static bool
kernel_equal(const struct dcp_ir_kernel *a, const struct dcp_ir_kernel *b)
{
    return a->known == b->known && a->param_count == b->param_count &&
           !strcmp(a->name, b->name) &&
           (!a->param_count ||
            !memcmp(a->params, b->params, a->param_count * sizeof *a->params));
}

static bool
refs_equal(const struct dcp_ir_node *a, const struct dcp_ir_node *b)
{
    for (uint32_t i = 0; i < a->ref_count; i++) {
        const struct dcp_ir_ref *r = &a->refs[i], *s = &b->refs[i];

        if (r->buffer != s->buffer || r->slot != s->slot ||
            r->offset != s->offset || r->access != s->access)
            return false;
    }
    return true;
}

static bool
payload_equal(const struct dcp_ir_node *a, const struct dcp_ir_node *b)
{
    switch (a->op) {
    case DCP_OP_LAUNCH:
        return a->launch.kernel == b->launch.kernel &&
               a->launch.shared == b->launch.shared &&
               a->launch.attrs == b->launch.attrs &&
               !memcmp(a->launch.grid, b->launch.grid,
                       sizeof a->launch.grid) &&
               !memcmp(a->launch.block, b->launch.block,
                       sizeof a->launch.block);
    case DCP_OP_COPY:
        return a->copy.bytes == b->copy.bytes && a->copy.to == b->copy.to &&
               a->copy.from == b->copy.from;
    case DCP_OP_FILL:
        return a->fill.pitch == b->fill.pitch &&
               a->fill.width == b->fill.width &&
               a->fill.height == b->fill.height &&
               a->fill.value == b->fill.value &&
               a->fill.element == b->fill.element;
    case DCP_OP_RECORD:
    case DCP_OP_WAIT:
        return a->sync_on.event == b->sync_on.event;
    case DCP_OP_HOST:
    case DCP_OP_OPAQUE:
        return a->sync_on.event == b->sync_on.event &&
               text_equal(a->sync_on.label, b->sync_on.label);
    case DCP_OP_ALLOC:
    case DCP_OP_FREE:
        return a->memory.buffer == b->memory.buffer;
    default:
        return a->move.bytes == b->move.bytes &&
               a->move.root == b->move.root &&
               a->move.dtype == b->move.dtype &&
               a->move.reduction == b->move.reduction;
    }
}

static bool
node_equal(const struct dcp_ir_node *a, const struct dcp_ir_node *b)
{
    return a->op == b->op && a->part == b->part && a->micro == b->micro &&
           a->sync == b->sync && a->carried == b->carried &&
           a->stream == b->stream && a->call == b->call &&
           a->ref_count == b->ref_count && a->after_count == b->after_count &&
           refs_equal(a, b) &&
           (!a->after_count || !memcmp(a->after, b->after,
                                       a->after_count * sizeof *a->after)) &&
           payload_equal(a, b);
}

static bool
head_equal(const struct dcp_graph *a, const struct dcp_graph *b)
{
    return a->key == b->key && a->rank == b->rank && a->world == b->world &&
           a->micro_count == b->micro_count &&
           a->arena_bytes == b->arena_bytes &&
           a->stream_count == b->stream_count &&
           a->event_count == b->event_count &&
           a->buffer_count == b->buffer_count &&
           a->kernel_count == b->kernel_count &&
           a->node_count == b->node_count;
}

bool
dcp_ir_equal(const struct dcp_graph *a, const struct dcp_graph *b)
{
    if (!head_equal(a, b))
        return false;
    for (uint32_t i = 0; i < a->buffer_count; i++)
        if (!buffer_equal(&a->buffers[i], &b->buffers[i]))
            return false;
    for (uint32_t i = 0; i < a->kernel_count; i++)
        if (!kernel_equal(&a->kernels[i], &b->kernels[i]))
            return false;
    for (uint32_t i = 0; i < a->node_count; i++)
        if (!node_equal(&a->nodes[i], &b->nodes[i]))
            return false;
    return true;
}

static bool
hash_line(void *user, const char *line, size_t length)
{
    uint64_t *hash = user;

    for (size_t i = 0; i < length; i++)
        *hash = (*hash ^ (unsigned char)line[i]) * 0x100000001b3u;
    return true;
}

uint64_t
dcp_ir_hash(const struct dcp_graph *graph)
{
    uint64_t hash = 0xcbf29ce484222325u;

    if (dcp_ir_print(graph, DCP_PRINT_NO_RANK, NULL, hash_line, &hash))
        return 0;
    return hash ? hash : 1;
}
