/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "capture/lift.h"

#include "src/arena.h"

#include "capture/kernel.h"
#include "capture/micro.h"

#include <string.h>

/* The places of the IR are those of capture, in the same order. */
_Static_assert((int)DCP_IR_DEVICE == DCP_PLACE_DEVICE &&
                   (int)DCP_IR_PINNED == DCP_PLACE_PINNED &&
                   (int)DCP_IR_PAGEABLE == DCP_PLACE_PAGEABLE,
               "places differ");

/* From a 64-bit name (a handle or a number) to an index of the graph. */
struct names {
    uint64_t *keys;
    uint32_t *values; /* index + 1; 0: free */
    uint32_t places;  /* a power of two, over twice the number of names */
};

struct lift {
    const struct dcp_log *log;
    const struct dcp_lift_options *options;
    uint32_t first, last;
    struct dcp_graph *graph;
    struct dcp_arena scratch;
    uint32_t *buffers; /* the log's number -> the graph's + 1 */
    struct names kernels, streams, events;
    uint8_t *recorded; /* by event: recorded within the run */
};

uint32_t
dcp_refs_scan(const uint8_t *params, uint32_t bytes, uint64_t base,
              uint64_t range, dcp_ref_finder *find, void *user,
              struct dcp_ref *refs, uint32_t room)
{
    uint32_t count = 0;

    for (uint32_t at = 0; bytes - at >= 8; at += 8) {
        struct dcp_ref ref = {.slot = at};
        uint64_t word;

        memcpy(&word, params + at, 8);
        if (word - base >= range || !find(user, word, &ref.buffer, &ref.offset))
            continue;
        if (count < room)
            refs[count] = ref;
        count++;
    }
    return count;
}

static bool
names_create(struct names *names, struct dcp_arena *arena, uint32_t most)
{
    names->places = 16;
    while (names->places < (uint64_t)most * 2 && names->places < 1u << 30)
        names->places *= 2;
    names->keys = dcp_arena_alloc(arena, names->places * sizeof *names->keys);
    names->values =
        dcp_arena_alloc(arena, names->places * sizeof *names->values);
    return names->keys && names->values;
}

/* Where `key` is or belongs. */
static uint32_t *
names_at(struct names *names, uint64_t key)
{
    uint32_t at = (uint32_t)(key * 0x9e3779b97f4a7c15u >> 32);

    while (names->values[at & (names->places - 1)] &&
           names->keys[at & (names->places - 1)] != key)
        at++;
    names->keys[at & (names->places - 1)] = key;
    return &names->values[at & (names->places - 1)];
}

static uint32_t
buffer_of(struct lift *l, uint32_t number)
{
    const struct dcp_log_buffer *b = &l->log->buffers[number];

    if (l->buffers[number])
        return l->buffers[number] - 1;
    bool old = b->alloc_call == UINT32_MAX || b->alloc_call < l->options->since;
    bool stays = b->free_call == UINT32_MAX || b->free_call >= l->last;
    uint32_t new = dcp_ir_add_buffer(l->graph, DCP_ROLE_UNKNOWN, b->bytes,
                                     old && stays, NULL);
    if (new != DCP_NONE)
        l->buffers[number] = new + 1;
    return new;
}

static uint32_t
kernel_of(struct lift *l, const struct dcp_kernel *kernel)
{
    uint32_t *place = names_at(&l->kernels, kernel->id);

    _Static_assert(sizeof(struct dcp_kernel_param) ==
                       sizeof(struct dcp_ir_param),
                   "one layout");
    if (!*place) {
        struct dcp_ir_param *params = NULL;
        if (kernel->known && kernel->param_count) {
            params = dcp_arena_alloc(&l->scratch,
                                     kernel->param_count * sizeof *params);
            if (!params)
                return DCP_NONE;
            memcpy(params, kernel->params,
                   kernel->param_count * sizeof *params);
        }
        uint32_t new =
            dcp_ir_add_kernel(l->graph, kernel->name, kernel->known, params,
                              params ? kernel->param_count : 0);
        if (new == DCP_NONE)
            return DCP_NONE;
        *place = new + 1;
    }
    return *place - 1;
}

static uint32_t
stream_of(struct lift *l, uint64_t handle)
{
    uint32_t *place;

    if (handle == 0)
        return DCP_NONE;
    place = names_at(&l->streams, handle);
    if (!*place) {
        uint32_t new = dcp_ir_add_stream(l->graph);
        if (new == DCP_NONE)
            return DCP_NONE;
        *place = new + 1;
    }
    return *place - 1;
}

static uint32_t
event_of(struct lift *l, uint64_t handle)
{
    uint32_t *place = names_at(&l->events, handle);

    if (!*place) {
        uint32_t new = dcp_ir_add_event(l->graph);
        if (new == DCP_NONE)
            return DCP_NONE;
        *place = new + 1;
    }
    return *place - 1;
}

static uint8_t
access_of(const struct lift *l, const struct dcp_call *call,
          const struct dcp_ref *ref)
{
    switch ((enum dcp_call_op)call->op) {
    case DCP_CALL_COPY:
        return ref->slot == 0 ? DCP_WRITE : DCP_READ;
    case DCP_CALL_FILL:
        return DCP_WRITE;
    case DCP_CALL_LAUNCH:
        if (l->options->access)
            return dcp_access_of(l->options->access, call->launch.kernel->id,
                                 ref->slot);
        break;
    default:
        break;
    }
    return DCP_READ | DCP_WRITE | DCP_ASSUMED;
}

static enum dcp_status
lift_refs(struct lift *l, struct dcp_ir_node *node, const struct dcp_call *call)
{
    if (call->ref_count == 0)
        return DCP_OK;
    struct dcp_ir_ref *refs = dcp_ir_add_refs(l->graph, node, call->ref_count);
    if (!refs)
        return DCP_NOMEM;
    for (uint32_t i = 0; i < call->ref_count; i++) {
        const struct dcp_ref *ref = &call->refs[i];
        refs[i].buffer = buffer_of(l, ref->buffer);
        refs[i].slot = ref->slot;
        refs[i].offset = ref->offset;
        refs[i].access = access_of(l, call, ref);
        if (refs[i].buffer == DCP_NONE)
            return DCP_NOMEM;
    }
    return DCP_OK;
}

static enum dcp_status
lift_launch(struct lift *l, struct dcp_ir_node *node,
            const struct dcp_call *call)
{
    node->launch.kernel = kernel_of(l, call->launch.kernel);
    memcpy(node->launch.grid, call->launch.grid, sizeof node->launch.grid);
    memcpy(node->launch.block, call->launch.block, sizeof node->launch.block);
    node->launch.shared = call->launch.shared;
    node->launch.attrs = call->launch.attrs;
    return node->launch.kernel == DCP_NONE ? DCP_NOMEM : DCP_OK;
}

static void
lift_fill(struct dcp_ir_node *node, const struct dcp_call *call)
{
    node->fill.width = call->fill.width;
    node->fill.height = call->fill.height;
    node->fill.pitch = call->fill.height == 1 ? 0 : call->fill.pitch;
    node->fill.value = call->fill.value;
    node->fill.element = call->fill.element;
}

static enum dcp_status
lift_event(struct lift *l, struct dcp_ir_node *node,
           const struct dcp_call *call)
{
    uint32_t event = event_of(l, call->event.event);

    if (event == DCP_NONE)
        return DCP_NOMEM;
    node->sync_on.event = event;
    if (call->op == DCP_CALL_RECORD)
        l->recorded[event] = 1;
    else
        node->carried = !l->recorded[event];
    return DCP_OK;
}

static const uint8_t op_of[] = {
    [DCP_CALL_LAUNCH] = DCP_OP_LAUNCH, [DCP_CALL_COPY] = DCP_OP_COPY,
    [DCP_CALL_FILL] = DCP_OP_FILL,     [DCP_CALL_RECORD] = DCP_OP_RECORD,
    [DCP_CALL_DEPEND] = DCP_OP_WAIT,   [DCP_CALL_ALLOC] = DCP_OP_ALLOC,
    [DCP_CALL_FREE] = DCP_OP_FREE,     [DCP_CALL_WAIT] = DCP_OP_HOST,
    [DCP_CALL_OPAQUE] = DCP_OP_OPAQUE,
};

static enum dcp_status
lift_call(struct lift *l, uint32_t index)
{
    const struct dcp_call *call = &l->log->calls[index];
    uint32_t stream = stream_of(l, call->stream);

    if (call->stream && stream == DCP_NONE)
        return DCP_NOMEM;
    struct dcp_ir_node *node =
        dcp_ir_add_node(l->graph, op_of[call->op], stream);
    if (!node)
        return DCP_NOMEM;
    node->call = index - l->first;
    node->sync = call->sync;
    switch ((enum dcp_call_op)call->op) {
    case DCP_CALL_LAUNCH:
        if (lift_launch(l, node, call))
            return DCP_NOMEM;
        return lift_refs(l, node, call);
    case DCP_CALL_COPY:
        node->copy.bytes = call->copy.bytes;
        node->copy.to = call->copy.dst_place;
        node->copy.from = call->copy.src_place;
        return lift_refs(l, node, call);
    case DCP_CALL_FILL:
        lift_fill(node, call);
        return lift_refs(l, node, call);
    case DCP_CALL_RECORD:
    case DCP_CALL_DEPEND:
        return lift_event(l, node, call);
    case DCP_CALL_ALLOC:
    case DCP_CALL_FREE:
        node->memory.buffer = buffer_of(l, call->memory.buffer);
        return node->memory.buffer == DCP_NONE ? DCP_NOMEM : DCP_OK;
    case DCP_CALL_WAIT:
        return DCP_OK;
    case DCP_CALL_OPAQUE:
        return lift_refs(l, node, call);
    }
    return DCP_INVALID;
}

static enum dcp_status
lift_begin(struct lift *l)
{
    uint32_t calls = l->last - l->first;

    l->graph = dcp_graph_create();
    l->buffers = dcp_arena_alloc(&l->scratch, (l->log->buffer_count + 1) *
                                                  sizeof *l->buffers);
    l->recorded = dcp_arena_alloc(&l->scratch, calls + 1);
    if (!l->graph || !l->buffers || !l->recorded ||
        !names_create(&l->kernels, &l->scratch, calls) ||
        !names_create(&l->streams, &l->scratch, calls) ||
        !names_create(&l->events, &l->scratch, calls))
        return DCP_NOMEM;
    return dcp_graph_reserve(l->graph, calls, 0);
}

/* The same on all ranks: numbers by first appearance, and names. */
static uint64_t
key_of(const struct dcp_graph *graph)
{
    uint64_t key = 0xcbf29ce484222325u;

    for (uint32_t i = 0; i < graph->kernel_count; i++)
        for (const char *c = graph->kernels[i].name; *c; c++)
            key = (key ^ (uint8_t)*c) * 0x100000001b3u;
    for (uint32_t i = 0; i < graph->node_count; i++) {
        const struct dcp_ir_node *node = &graph->nodes[i];
        key = (key ^ node->op ^ (uint64_t)node->stream << 8) * 0x100000001b3u;
        if (node->op == DCP_OP_LAUNCH)
            key = (key ^ node->launch.kernel) * 0x100000001b3u;
    }
    return key ? key : 1;
}

enum dcp_status
dcp_lift(const struct dcp_log *log, uint32_t first, uint32_t last,
         const struct dcp_lift_options *options, struct dcp_graph **out)
{
    struct lift l = {
        .log = log,
        .options = options,
        .first = first,
        .last = last,
    };
    struct dcp_lift_options plain = {.since = first};

    if (first > last || last > log->call_count)
        return DCP_INVALID;
    if (!options)
        l.options = &plain;
    enum dcp_status status = lift_begin(&l);
    for (uint32_t i = first; i < last && !status; i++)
        status = lift_call(&l, i);
    dcp_arena_release(&l.scratch);
    if (!status)
        status = dcp_micro_fill(l.graph);
    if (status) {
        dcp_graph_destroy(l.graph);
        return status;
    }
    l.graph->key = key_of(l.graph);
    *out = l.graph;
    return DCP_OK;
}
