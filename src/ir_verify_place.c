/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "src/ir_verify.h"

#include "src/ir_live.h"
#include "src/tree.h"

/* The planned range while time goes by: pieces that cover it without gaps,
 * ordered by address, each with its last user. */
struct piece {
    struct dcp_tree_node node; /* key: first byte; must be the first member */
    uint64_t end;
    uint32_t user; /* DCP_NONE: nobody yet */
    bool live;
};

struct range {
    struct dcp_tree pieces;
    struct piece *spare; /* for use again, linked by node.left */
    struct dcp_verifier *v;
    const struct dcp_live *live;
    unsigned shared; /* faults found */
};

/* Past these the range is a heap of overlaps and the work no longer linear. */
enum { ENOUGH = 64 };

static struct piece *
new_piece(struct range *range)
{
    struct piece *piece = range->spare;

    if (piece)
        range->spare = (struct piece *)piece->node.left;
    else
        piece = dcp_arena_alloc(&range->v->scratch, sizeof *piece);
    if (!piece)
        range->v->no_memory = true;
    return piece;
}

/* Makes a piece begin at `at`, which the range contains. */
static bool
split(struct range *range, uint64_t at)
{
    struct piece *low, *high;

    low = (struct piece *)dcp_tree_floor(&range->pieces, at, UINT64_MAX);
    if (low->node.key == at || low->end <= at)
        return true;
    if (!(high = new_piece(range)))
        return false;
    *high = *low;
    high->node.key = at;
    low->end = at;
    dcp_tree_insert(&range->pieces, &high->node);
    return true;
}

static struct piece *
piece_at(struct range *range, uint64_t at)
{
    return (struct piece *)dcp_tree_ceil(&range->pieces, at, 0);
}

static void
meet(struct range *range, const struct piece *piece, uint32_t b)
{
    const struct dcp_ir_node *nodes = range->v->graph->nodes;
    uint32_t user = piece->user;

    if (user == DCP_NONE)
        return;
    if (piece->live)
        dcp_verify_fault(range->v, DCP_FAULT_BUFFER, b,
                         "shares its place with %%%u, which is live", user);
    else if (nodes[range->live->free[user]].stream !=
             nodes[range->live->alloc[b]].stream)
        dcp_verify_fault(range->v, DCP_FAULT_BUFFER, b,
                         "takes the place of %%%u, freed on another stream",
                         user);
    else
        return;
    range->shared++;
}

static bool
enter(struct range *range, uint32_t b)
{
    const struct dcp_ir_buffer *buffer = &range->v->graph->buffers[b];
    uint64_t at = buffer->place, end = at + buffer->bytes;
    struct piece *first, *next;

    if (!split(range, at) || !split(range, end))
        return false;
    first = piece_at(range, at);
    meet(range, first, b);
    while (first->end < end) {
        next = piece_at(range, first->end);
        meet(range, next, b);
        first->end = next->end;
        dcp_tree_remove(&range->pieces, &next->node);
        next->node.left = (struct dcp_tree_node *)range->spare;
        range->spare = next;
    }
    first->user = b;
    first->live = true;
    return true;
}

static void
leave(struct range *range, uint32_t b)
{
    const struct dcp_ir_buffer *buffer = &range->v->graph->buffers[b];
    struct piece *piece = piece_at(range, buffer->place);

    for (; piece && piece->node.key < buffer->place + buffer->bytes;
         piece = piece_at(range, piece->end))
        if (piece->user == b)
            piece->live = false;
}

static bool
placed(const struct dcp_verifier *v, uint32_t b)
{
    const struct dcp_ir_buffer *buffer = &v->graph->buffers[b];

    return buffer->place <= v->graph->arena_bytes && buffer->bytes &&
           buffer->bytes <= v->graph->arena_bytes - buffer->place;
}

/* Only a life that begins and ends inside can have a place. */
static void
check_born(struct dcp_verifier *v, const struct dcp_live *live)
{
    for (uint32_t b = 0; b < v->graph->buffer_count; b++)
        if (v->graph->buffers[b].place != DCP_NO_PLACE &&
            (live->alloc[b] == DCP_NONE || live->free[b] == DCP_NONE))
            dcp_verify_fault(v, DCP_FAULT_BUFFER, b,
                             "has a place, but lives beyond the iteration");
}

static void
sweep(struct range *range)
{
    const struct dcp_graph *g = range->v->graph;

    for (uint32_t i = 0; i < g->node_count && range->shared < ENOUGH; i++) {
        const struct dcp_ir_node *n = &g->nodes[i];

        if (!(dcp_op_properties(n->op) & DCP_IS_MEMORY) ||
            n->memory.buffer >= g->buffer_count ||
            !placed(range->v, n->memory.buffer))
            continue;
        if (range->live->alloc[n->memory.buffer] == i &&
            !enter(range, n->memory.buffer))
            return;
        if (range->live->free[n->memory.buffer] == i &&
            range->live->alloc[n->memory.buffer] != DCP_NONE)
            leave(range, n->memory.buffer);
    }
}

void
dcp_verify_places(struct dcp_verifier *v)
{
    struct dcp_live live;
    struct range range = { .v = v, .live = &live };
    struct piece *whole = new_piece(&range);

    if (!whole || dcp_live_fill(v->graph, &v->scratch, &live)) {
        v->no_memory = true;
        return;
    }
    check_born(v, &live);
    whole->node.key = whole->node.second = 0;
    whole->end = v->graph->arena_bytes;
    whole->user = DCP_NONE;
    dcp_tree_insert(&range.pieces, &whole->node);
    sweep(&range);
}
