/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "src/ir_verify.h"

#include <stdarg.h>
#include <stdio.h>

void
dcp_verify_fault(struct dcp_verifier *v, unsigned where, uint32_t index,
                 const char *format, ...)
{
    struct dcp_ir_faults *faults = v->faults;
    va_list list;

    v->broken++;
    if (!faults)
        return;
    faults->count++;
    if (faults->kept == faults->room)
        return;
    struct dcp_ir_fault *fault = &faults->list[faults->kept++];
    fault->where = where;
    fault->index = index;
    va_start(list, format);
    vsnprintf(fault->text, sizeof fault->text, format, list);
    va_end(list);
}

#define BROKEN(what, index, ...)                                               \
    dcp_verify_fault(v, DCP_FAULT_##what, index, __VA_ARGS__)

/* --- declarations --------------------------------------------------------- */

static void
check_head(struct dcp_verifier *v)
{
    const struct dcp_graph *g = v->graph;

    if (!g->world)
        BROKEN(GRAPH, 0, "a world of no ranks");
    else if (g->rank >= g->world)
        BROKEN(GRAPH, 0, "rank %u of %u", g->rank, g->world);
    if (!g->micro_count)
        BROKEN(GRAPH, 0, "no micro-step");
    if (g->arena_bytes % DCP_PLACE_ALIGN)
        BROKEN(GRAPH, 0, "the planned range is no multiple of %u",
               DCP_PLACE_ALIGN);
}

static void
check_buffer(struct dcp_verifier *v, uint32_t i)
{
    const struct dcp_ir_buffer *b = &v->graph->buffers[i];
    uint64_t range = v->graph->arena_bytes;

    if (b->role >= DCP_ROLE_COUNT)
        BROKEN(BUFFER, i, "role %u", b->role);
    if (b->place == DCP_NO_PLACE)
        return;
    if (b->place % DCP_PLACE_ALIGN)
        BROKEN(BUFFER, i, "place is not aligned to %u", DCP_PLACE_ALIGN);
    if (b->place > range || b->bytes > range - b->place)
        BROKEN(BUFFER, i, "place reaches beyond the planned range");
}

static void
check_kernel(struct dcp_verifier *v, uint32_t i)
{
    const struct dcp_ir_kernel *k = &v->graph->kernels[i];
    uint64_t end = 0;

    for (uint32_t j = 0; j < k->param_count; j++) {
        if (k->params[j].offset < end) {
            BROKEN(KERNEL, i, "parameter %u overlaps the one before", j);
            return;
        }
        end = (uint64_t)k->params[j].offset + k->params[j].bytes;
    }
}

/* --- one node by itself --------------------------------------------------- */

static void
check_stream(struct dcp_verifier *v, uint32_t i)
{
    const struct dcp_ir_node *n = &v->graph->nodes[i];

    if (n->stream != DCP_NONE && n->stream >= v->graph->stream_count)
        BROKEN(NODE, i, "unknown stream @%u", n->stream);
    if (n->stream == DCP_NONE &&
        dcp_op_properties(n->op) & (DCP_IS_GRAPH | DCP_IS_EVENT))
        BROKEN(NODE, i, "a '%s' needs a stream", dcp_op_text(n->op));
}

/* End of the last parameter; UINT64_MAX where the layout is unknown. */
static uint64_t
params_end(const struct dcp_graph *g, const struct dcp_ir_node *n)
{
    const struct dcp_ir_kernel *k;

    if (n->launch.kernel >= g->kernel_count)
        return UINT64_MAX;
    k = &g->kernels[n->launch.kernel];
    if (!k->known)
        return UINT64_MAX;
    if (!k->param_count)
        return 0;
    return (uint64_t)k->params[k->param_count - 1].offset +
           k->params[k->param_count - 1].bytes;
}

/* Bytes that a fill spans; UINT64_MAX where that does not fit. */
static uint64_t
fill_span(const struct dcp_ir_node *n)
{
    uint64_t row, rows;

    if (!n->fill.height || !n->fill.width)
        return 0;
    if (__builtin_mul_overflow(n->fill.width, n->fill.element, &row) ||
        __builtin_mul_overflow(n->fill.height - 1, n->fill.pitch, &rows) ||
        __builtin_add_overflow(rows, row, &row))
        return UINT64_MAX;
    return row;
}

/* Bytes of a referenced buffer that a node certainly touches. */
static uint64_t
span(const struct dcp_ir_node *n)
{
    if (n->op == DCP_OP_COPY)
        return n->copy.bytes;
    if (n->op == DCP_OP_FILL)
        return fill_span(n);
    if (dcp_op_properties(n->op) & DCP_IS_OURS)
        return n->move.bytes;
    return 0;
}

static void
check_slot(struct dcp_verifier *v, uint32_t i, const struct dcp_ir_ref *r)
{
    const struct dcp_ir_node *n = &v->graph->nodes[i];

    if (n->op == DCP_OP_LAUNCH) {
        if ((uint64_t)r->slot + 8 > params_end(v->graph, n))
            BROKEN(NODE, i, "slot %u lies beyond the parameters", r->slot);
    } else if (n->op == DCP_OP_COPY) {
        if (r->slot != 0 && r->slot != 8)
            BROKEN(NODE, i, "slot %u of a copy", r->slot);
        else if ((r->access & 3) != (r->slot ? DCP_READ : DCP_WRITE))
            BROKEN(NODE, i, "wrong access: a copy %s at slot %u",
                   r->slot ? "reads" : "writes", r->slot);
        else if ((r->slot ? n->copy.from : n->copy.to) != DCP_IR_DEVICE)
            BROKEN(NODE, i, "slot %u is a buffer and not on the device",
                   r->slot);
    }
}

static void
check_ref(struct dcp_verifier *v, uint32_t i, const struct dcp_ir_ref *r)
{
    const struct dcp_ir_node *n = &v->graph->nodes[i];
    unsigned properties = dcp_op_properties(n->op);

    if (r->buffer >= v->graph->buffer_count) {
        BROKEN(NODE, i, "unknown buffer %%%u", r->buffer);
        return;
    }
    uint64_t bytes = v->graph->buffers[r->buffer].bytes;
    if (r->offset >= bytes && (r->offset || span(n)))
        BROKEN(NODE, i, "%%%u+%llu lies outside the buffer", r->buffer,
               (unsigned long long)r->offset);
    else if (span(n) > bytes - r->offset)
        BROKEN(NODE, i, "reaches beyond the end of %%%u", r->buffer);
    if (!(r->access & 3) || r->access > 7)
        BROKEN(NODE, i, "wrong access: neither reads nor writes %%%u",
               r->buffer);
    else if ((r->access & DCP_READ && !(properties & DCP_IS_READS)) ||
             (r->access & DCP_WRITE && !(properties & DCP_IS_WRITES)))
        BROKEN(NODE, i, "wrong access: a '%s' does not %s", dcp_op_text(n->op),
               properties & DCP_IS_READS    ? "write"
               : properties & DCP_IS_WRITES ? "read"
                                            : "refer to buffers");
    check_slot(v, i, r);
}

static void
check_launch(struct dcp_verifier *v, uint32_t i)
{
    const struct dcp_ir_node *n = &v->graph->nodes[i];

    if (n->launch.kernel >= v->graph->kernel_count)
        BROKEN(NODE, i, "unknown kernel");
    for (int j = 0; j < 3; j++)
        if (!n->launch.grid[j] || !n->launch.block[j]) {
            BROKEN(NODE, i, "an empty grid or block");
            break;
        }
}

static void
check_move(struct dcp_verifier *v, uint32_t i)
{
    const struct dcp_ir_node *n = &v->graph->nodes[i];
    unsigned element = dcp_dtype_bytes(n->move.dtype);

    if (n->call != DCP_NONE)
        BROKEN(NODE, i, "a '%s' never comes from the program",
               dcp_op_text(n->op));
    if (!element || n->move.reduction >= DCP_REDUCTION_COUNT)
        BROKEN(NODE, i, "unknown element type or reduction");
    else if (n->move.bytes % element)
        BROKEN(NODE, i, "bytes are no multiple of the element");
    if (n->move.root && n->move.root >= v->graph->world)
        BROKEN(NODE, i, "root %u of %u ranks", n->move.root, v->graph->world);
}

static void
check_payload(struct dcp_verifier *v, uint32_t i)
{
    const struct dcp_ir_node *n = &v->graph->nodes[i];

    if (n->op == DCP_OP_LAUNCH)
        check_launch(v, i);
    else if (n->op == DCP_OP_COPY &&
             (n->copy.to >= DCP_IR_PLACE_COUNT ||
              n->copy.from >= DCP_IR_PLACE_COUNT))
        BROKEN(NODE, i, "unknown place of a copy");
    else if (n->op == DCP_OP_FILL && n->fill.element != 1 &&
             n->fill.element != 2 && n->fill.element != 4)
        BROKEN(NODE, i, "fill by %u bytes", n->fill.element);
    else if (dcp_op_properties(n->op) & DCP_IS_OURS)
        check_move(v, i);
}

static void
check_node(struct dcp_verifier *v, uint32_t i)
{
    const struct dcp_graph *g = v->graph;
    const struct dcp_ir_node *n = &g->nodes[i];

    if (n->op >= DCP_OP_COUNT) {
        BROKEN(NODE, i, "unknown operation %u", n->op);
        return;
    }
    if (n->part >= DCP_PART_COUNT || n->micro >= g->micro_count)
        BROKEN(NODE, i, "part %u of micro-step %u", n->part, n->micro);
    check_stream(v, i);
    for (uint32_t r = 0; r < n->ref_count; r++)
        check_ref(v, i, &n->refs[r]);
    for (uint32_t a = 0; a < n->after_count; a++)
        if (n->after[a] >= i)
            BROKEN(NODE, i, "after n%u, which does not come before",
                   n->after[a]);
    check_payload(v, i);
}

/* --- lives ---------------------------------------------------------------- */

enum life { OLDER, USED, ALIVE, FREED }; /* USED: and never allocated */

static void
see_refs(struct dcp_verifier *v, uint32_t i, uint8_t *life)
{
    const struct dcp_ir_node *n = &v->graph->nodes[i];

    for (uint32_t r = 0; r < n->ref_count; r++) {
        uint32_t b = n->refs[r].buffer;

        if (b >= v->graph->buffer_count)
            continue;
        if (life[b] == FREED)
            BROKEN(NODE, i, "use after free of %%%u", b);
        if (life[b] == OLDER)
            life[b] = USED;
    }
}

static void
see_memory(struct dcp_verifier *v, uint32_t i, uint8_t *life)
{
    const struct dcp_ir_node *n = &v->graph->nodes[i];
    uint32_t b = n->memory.buffer;

    if (b >= v->graph->buffer_count) {
        BROKEN(NODE, i, "unknown buffer");
    } else if (n->op == DCP_OP_FREE) {
        if (life[b] == FREED)
            BROKEN(NODE, i, "%%%u is freed twice", b);
        life[b] = FREED;
    } else {
        if (life[b] == ALIVE)
            BROKEN(NODE, i, "%%%u is allocated twice", b);
        else if (life[b] == FREED)
            BROKEN(NODE, i, "%%%u is allocated after its free", b);
        else if (life[b] == USED)
            BROKEN(NODE, i, "%%%u was used before its allocation", b);
        if (v->graph->buffers[b].persistent)
            BROKEN(NODE, i, "%%%u is persistent", b);
        life[b] = ALIVE;
    }
}

static void
check_lives(struct dcp_verifier *v)
{
    const struct dcp_graph *g = v->graph;
    uint8_t *life = dcp_arena_alloc(&v->scratch, g->buffer_count);

    if (!life) {
        v->no_memory = true;
        return;
    }
    for (uint32_t i = 0; i < g->node_count; i++) {
        see_refs(v, i, life);
        if (dcp_op_properties(g->nodes[i].op) & DCP_IS_MEMORY)
            see_memory(v, i, life);
    }
}

/* --- order ---------------------------------------------------------------- */

/* Counts that a graph of this many nodes can have; beyond them the arrays by
 * stream and by event would be the text's choice of our memory. */
static bool
counts_sane(struct dcp_verifier *v)
{
    uint64_t most = (uint64_t)v->graph->node_count + 1024;

    if (v->graph->stream_count <= most && v->graph->event_count <= most)
        return true;
    BROKEN(GRAPH, 0, "more streams or events than nodes");
    return false;
}

static void
check_event(struct dcp_verifier *v, uint32_t i, uint8_t *recorded)
{
    const struct dcp_ir_node *n = &v->graph->nodes[i];
    uint32_t e = n->sync_on.event;

    if (e >= v->graph->event_count) {
        if (e != DCP_NONE || dcp_op_properties(n->op) & DCP_IS_EVENT)
            BROKEN(NODE, i, "unknown event");
    } else if (n->op == DCP_OP_RECORD) {
        recorded[e] = 1;
    } else if (n->op == DCP_OP_WAIT && !recorded[e] && !n->carried) {
        BROKEN(NODE, i, "waits for !%u before its record", e);
    } else if (n->op == DCP_OP_WAIT && recorded[e] && n->carried) {
        BROKEN(NODE, i, "carried, but !%u is recorded before it", e);
    }
}

/* The program's own nodes keep their order within their stream, always. */
static void
check_call(struct dcp_verifier *v, uint32_t i, uint64_t *next_call)
{
    const struct dcp_ir_node *n = &v->graph->nodes[i];

    if (n->call == DCP_NONE || n->stream >= v->graph->stream_count)
        return;
    if (n->call < next_call[n->stream])
        BROKEN(NODE, i, "comes after a later call of stream @%u", n->stream);
    else
        next_call[n->stream] = n->call;
}

static void
check_order(struct dcp_verifier *v)
{
    const struct dcp_graph *g = v->graph;
    uint64_t *next_call;
    uint8_t *recorded;

    if (!counts_sane(v))
        return;
    recorded = dcp_arena_alloc(&v->scratch, g->event_count);
    next_call = dcp_arena_alloc(&v->scratch,
                                g->stream_count * sizeof *next_call);
    if (!recorded || !next_call) {
        v->no_memory = true;
        return;
    }
    for (uint32_t i = 0; i < g->node_count; i++) {
        if (dcp_op_properties(g->nodes[i].op) & (DCP_IS_EVENT | DCP_IS_CUT))
            check_event(v, i, recorded);
        check_call(v, i, next_call);
    }
}

/* --- the whole ------------------------------------------------------------ */

enum dcp_status
dcp_ir_verify(const struct dcp_graph *graph, struct dcp_ir_faults *faults)
{
    struct dcp_verifier verifier = { .graph = graph, .faults = faults };
    struct dcp_verifier *v = &verifier;

    check_head(v);
    for (uint32_t i = 0; i < graph->buffer_count; i++)
        check_buffer(v, i);
    for (uint32_t i = 0; i < graph->kernel_count; i++)
        check_kernel(v, i);
    for (uint32_t i = 0; i < graph->node_count; i++)
        check_node(v, i);
    check_lives(v);
    check_order(v);
    dcp_verify_places(v);
    dcp_arena_release(&v->scratch);
    if (v->no_memory)
        return DCP_NOMEM;
    return v->broken ? DCP_INVALID : DCP_OK;
}
