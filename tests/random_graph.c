/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "tests/random_graph.h"

#include <stdlib.h>

static uint64_t state;

static uint64_t
any(uint64_t below)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return below ? (state >> 20) % below : 0;
}

/* Often small, now and then at the very edge. */
static uint64_t
wide(void)
{
    switch (any(4)) {
    case 0:
        return 0;
    case 1:
        return any(100);
    case 2:
        return UINT64_MAX - any(3);
    default:
        return (uint64_t)1 << any(64);
    }
}

static uint32_t
number(void)
{
    return any(8) ? (uint32_t)any(20) : DCP_NONE - (uint32_t)any(2);
}

/* --- any values ----------------------------------------------------------- */

static const char *
label(char *room)
{
    unsigned n = (unsigned)any(12);

    if (!any(3))
        return NULL;
    for (unsigned i = 0; i < n; i++)
        room[i] = (char)(1 + any(255));
    room[n] = '\0';
    return room;
}

static void
random_payload(struct dcp_graph *g, struct dcp_ir_node *n)
{
    char room[16];

    if (n->op == DCP_OP_LAUNCH) {
        n->launch.kernel = number();
        for (int i = 0; i < 3; i++) {
            n->launch.grid[i] = 1 + (uint32_t)any(3);
            n->launch.block[i] = (uint32_t)wide();
        }
        n->launch.shared = (uint32_t)wide();
        n->launch.attrs = wide();
    } else if (n->op == DCP_OP_COPY) {
        n->copy.bytes = wide();
        n->copy.to = (uint8_t)any(DCP_IR_PLACE_COUNT);
        n->copy.from = (uint8_t)any(DCP_IR_PLACE_COUNT);
    } else if (n->op == DCP_OP_FILL) {
        n->fill.width = wide();
        n->fill.height = wide();
        n->fill.pitch = wide();
        n->fill.value = (uint32_t)wide();
        n->fill.element = (uint8_t)any(256);
    } else if (dcp_op_properties(n->op) & DCP_IS_MEMORY) {
        n->memory.buffer = number();
    } else if (dcp_op_properties(n->op) & (DCP_IS_EVENT | DCP_IS_CUT)) {
        n->sync_on.event = number();
        const char *text =
            dcp_op_properties(n->op) & DCP_IS_CUT ? label(room) : NULL;
        n->sync_on.label = text ? dcp_arena_strdup(&g->arena, text) : NULL;
    } else {
        n->move.bytes = wide();
        n->move.root = (uint32_t)any(3);
        n->move.dtype = (uint8_t)any(DCP_DTYPE_COUNT);
        n->move.reduction = (uint8_t)any(DCP_REDUCTION_COUNT);
    }
}

static void
random_node(struct dcp_graph *g)
{
    struct dcp_ir_node *n =
        dcp_ir_add_node(g, (enum dcp_op)any(DCP_OP_COUNT), number());
    uint32_t refs = (uint32_t)any(5), after = (uint32_t)any(3);

    random_payload(g, n);
    n->part = (uint8_t)any(DCP_PART_COUNT);
    n->micro = any(4) ? 0 : (uint16_t)any(65536);
    n->sync = !any(4);
    n->carried = !any(4);
    n->call = number();
    n->gpu_ns = any(2) ? any(100000) : 0;
    if (refs)
        dcp_ir_add_refs(g, n, refs);
    for (uint32_t i = 0; i < refs; i++)
        n->refs[i] = (struct dcp_ir_ref){
            number(), number() % 64, wide(), (uint8_t)any(8)
        };
    if (after)
        dcp_ir_add_after(g, n, after);
    for (uint32_t i = 0; i < after; i++)
        n->after[i] = number();
}

struct dcp_graph *
random_graph(uint64_t seed, uint32_t nodes)
{
    struct dcp_graph *g = dcp_graph_create();
    struct dcp_ir_param params[3];
    char room[16];

    state = seed;
    g->key = wide();
    g->rank = (uint32_t)any(5);
    g->world = (uint32_t)any(5);
    g->micro_count = (uint32_t)any(5);
    g->arena_bytes = wide();
    g->stream_count = number() & ~1u;
    g->event_count = number() & ~1u;
    for (uint64_t i = any(10); i; i--) {
        uint32_t b = dcp_ir_add_buffer(g, (enum dcp_role)any(DCP_ROLE_COUNT),
                                       wide(), any(2), label(room));
        g->buffers[b].place = any(2) ? DCP_NO_PLACE : any(10000);
    }
    for (uint64_t i = any(5); i; i--) {
        const char *name = label(room);

        for (int p = 0; p < 3; p++)
            params[p] = (struct dcp_ir_param){ number() & ~1u, number() & ~1u };
        dcp_ir_add_kernel(g, name ? name : "", any(2), params,
                          (uint32_t)any(4));
    }
    for (uint32_t i = 0; i < nodes; i++)
        random_node(g);
    return g;
}

/* --- valid ones ----------------------------------------------------------- */

static uint32_t calls;

static struct dcp_ir_node *
call(struct dcp_graph *g, enum dcp_op op, uint32_t stream)
{
    struct dcp_ir_node *n = dcp_ir_add_node(g, op, stream);

    n->call = calls++;
    return n;
}

static uint32_t
born(struct dcp_graph *g, uint64_t bytes, uint32_t stream)
{
    uint32_t b = dcp_ir_add_buffer(g, DCP_ROLE_ACT, bytes, false, NULL);

    call(g, DCP_OP_ALLOC, stream)->memory.buffer = b;
    return b;
}

static void
dead(struct dcp_graph *g, uint32_t buffer, uint32_t stream)
{
    call(g, DCP_OP_FREE, stream)->memory.buffer = buffer;
}

static void
kernel(struct dcp_graph *g, uint32_t read, uint32_t write, uint32_t stream)
{
    struct dcp_ir_node *n = call(g, DCP_OP_LAUNCH, stream);

    n->launch.kernel = 0;
    n->gpu_ns = 1000 + any(20000);
    dcp_ir_add_refs(g, n, 2);
    n->refs[0] = (struct dcp_ir_ref){ read, 0, 0, DCP_READ };
    n->refs[1] = (struct dcp_ir_ref){ write, 8, 0, DCP_WRITE };
}

static struct dcp_graph *
valid_graph(uint64_t seed, uint32_t streams)
{
    struct dcp_graph *g = dcp_graph_create();
    struct dcp_ir_param params[] = { { 0, 8 }, { 8, 8 } };

    state = seed;
    calls = 0;
    for (uint32_t i = 0; i < streams; i++)
        dcp_ir_add_stream(g);
    dcp_ir_add_kernel(g, "k", true, params, 2);
    return g;
}

/* A workspace for a launch. */
static void
short_life(struct dcp_graph *g, uint32_t of, uint64_t bytes, uint32_t stream)
{
    uint32_t b = born(g, bytes, stream);

    kernel(g, of, b, stream);
    dead(g, b, stream);
}

struct dcp_graph *
training_graph(uint64_t seed, uint32_t nodes, uint32_t streams)
{
    struct dcp_graph *g = valid_graph(seed, streams);
    uint32_t layers = nodes / 20 + 1, flow;
    uint32_t *act = calloc(layers, sizeof *act);
    uint32_t *grad = calloc(layers, sizeof *grad);
    uint64_t unit = 1000 + any(1 << 20);

    uint32_t input = dcp_ir_add_buffer(g, DCP_ROLE_INPUT, 4096, true, NULL);
    for (uint32_t l = 0; l < layers; l++) {
        uint32_t stream = l % streams;

        act[l] = born(g, unit * (1 + any(6)) + any(600), stream);
        kernel(g, input, act[l], stream);
        short_life(g, act[l], unit * (1 + any(8)), stream);
    }
    flow = born(g, unit * 4, 0);
    for (uint32_t l = layers; l-- > 0;) {
        uint32_t stream = l % streams, before = flow;

        grad[l] = born(g, unit / 2 + any(unit), stream);
        flow = born(g, unit * (1 + any(4)), 0);
        kernel(g, before, grad[l], stream);
        short_life(g, act[l], unit * (1 + any(4)), stream);
        dead(g, act[l], stream);
        dead(g, before, 0);
    }
    dead(g, flow, 0);
    for (uint32_t l = 0; l < layers; l++)
        short_life(g, grad[l], 512 + any(unit), l % streams);
    for (uint32_t l = 0; l < layers; l++)
        dead(g, grad[l], l % streams);
    free(act);
    free(grad);
    return g;
}

struct dcp_graph *
chaos_graph(uint64_t seed, uint32_t nodes, uint32_t live)
{
    struct dcp_graph *g = valid_graph(seed, 1);
    uint32_t *list = calloc(live, sizeof *list), count = 0;

    while (g->node_count + count < nodes) {
        if (count && (count == live || !any(3))) {
            uint32_t i = (uint32_t)any(count);

            dead(g, list[i], 0);
            list[i] = list[--count];
        } else {
            list[count++] = born(g, 1 + any(any(4) ? 1 << 18 : 1 << 24), 0);
        }
    }
    while (count)
        dead(g, list[--count], 0);
    free(list);
    return g;
}
