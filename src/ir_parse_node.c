/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "src/ir_scan.h"

#include <string.h>

/* --- the keys of each operation ------------------------------------------ */

#define ON(name) (1u << DCP_OP_##name)
#define MOVES                                                                  \
    (ON(GATHER) | ON(SCATTER) | ON(REDUCE) | ON(BCAST) | ON(FETCH) |           \
     ON(EVICT) | ON(COMBINE))
#define AT(member) offsetof(struct dcp_ir_node, member)

enum kind { U8, U32, U64, HEX, TRIPLE, PLACE_WORD, DTYPE_WORD, REDUCTION_WORD };

static const struct field {
    const char *key;
    unsigned ops; /* bits of enum dcp_op */
    enum kind kind;
    size_t at;
    uint64_t most;
} fields[] = {
    { "grid", ON(LAUNCH), TRIPLE, AT(launch.grid), 0 },
    { "block", ON(LAUNCH), TRIPLE, AT(launch.block), 0 },
    { "shared", ON(LAUNCH), U32, AT(launch.shared), UINT32_MAX },
    { "attrs", ON(LAUNCH), HEX, AT(launch.attrs), 0 },
    { "bytes", ON(COPY), U64, AT(copy.bytes), UINT64_MAX },
    { "to", ON(COPY), PLACE_WORD, AT(copy.to), 0 },
    { "from", ON(COPY), PLACE_WORD, AT(copy.from), 0 },
    { "width", ON(FILL), U64, AT(fill.width), UINT64_MAX },
    { "height", ON(FILL), U64, AT(fill.height), UINT64_MAX },
    { "pitch", ON(FILL), U64, AT(fill.pitch), UINT64_MAX },
    { "value", ON(FILL), U32, AT(fill.value), UINT32_MAX },
    { "element", ON(FILL), U8, AT(fill.element), UINT8_MAX },
    { "bytes", MOVES, U64, AT(move.bytes), UINT64_MAX },
    { "root", MOVES, U32, AT(move.root), UINT32_MAX },
    { "dtype", MOVES, DTYPE_WORD, AT(move.dtype), 0 },
    { "red", MOVES, REDUCTION_WORD, AT(move.reduction), 0 },
};

enum { FIELD_COUNT = sizeof fields / sizeof *fields };

/* All that can stand before or in place of "=", for the nearest-word hint;
 * from `sync` on they hold for every operation. */
static const char *const key_list[] = {
    "grid", "block", "shared", "attrs", "bytes", "to", "from", "width",
    "height", "pitch", "value", "element", "root", "dtype", "red",
    "sync", "carried", "after", "call",
    "-", "r", "w", "rw", "?", "r?", "w?", "rw?",
};

enum { KEY_SYNC = 15, KEY_CARRIED, KEY_AFTER, KEY_CALL, KEY_ACCESS };

static const struct dcp_words key_words = {
    key_list, sizeof key_list / sizeof *key_list
};

static bool
set_triple(struct dcp_scan *p, struct dcp_token t, uint32_t *out)
{
    struct dcp_token item;
    uint64_t value;

    for (int i = 0; i < 3; i++) {
        if (!dcp_token_next(&t, ',', &item))
            return dcp_scan_fail(p, "expected three numbers, as in 8,1,1");
        if (!dcp_scan_number(p, item, UINT32_MAX, &value))
            return false;
        out[i] = (uint32_t)value;
    }
    if (t.length)
        return dcp_scan_fail(p, "'%s' is too much", dcp_scan_show(t).text);
    return true;
}

static bool
set_number(struct dcp_scan *p, struct dcp_token t, const struct field *field,
           void *at)
{
    uint64_t value;

    if (!dcp_scan_number(p, t, field->most, &value))
        return false;
    if (field->kind == U8)
        *(uint8_t *)at = (uint8_t)value;
    else if (field->kind == U32)
        *(uint32_t *)at = (uint32_t)value;
    else
        *(uint64_t *)at = value;
    return true;
}

static bool
set_field(struct dcp_scan *p, struct dcp_token t, const struct field *field,
          struct dcp_ir_node *node)
{
    void *at = (char *)node + field->at;

    switch (field->kind) {
    case HEX:
        return dcp_scan_hex(p, t, at);
    case TRIPLE:
        return set_triple(p, t, at);
    case PLACE_WORD:
        return dcp_scan_word(p, "place", t, &dcp_place_words, at);
    case DTYPE_WORD:
        return dcp_scan_word(p, "element type", t, &dcp_dtype_words, at);
    case REDUCTION_WORD:
        return dcp_scan_word(p, "reduction", t, &dcp_reduction_words, at);
    default:
        return set_number(p, t, field, at);
    }
}

/* --- references and edges ------------------------------------------------ */

/* %BUFFER[:SLOT][+OFFSET] */
static bool
parse_ref(struct dcp_scan *p, unsigned access, struct dcp_token t)
{
    struct dcp_ir_ref ref = { .access = (uint8_t)access };
    struct dcp_token place = t, head = t, slot;

    if (dcp_token_cut(&place, '+', &head)) {
        if (!dcp_scan_number(p, place, UINT64_MAX, &ref.offset))
            return false;
    }
    slot = head;
    if (dcp_token_cut(&slot, ':', &head)) {
        if (!dcp_scan_number32(p, slot, &ref.slot))
            return false;
    }
    if (!dcp_scan_name(p, head, '%', &ref.buffer) ||
        !dcp_scan_more(p, (void **)&p->refs, p->ref_count, &p->ref_room,
                       sizeof *p->refs))
        return false;
    p->refs[p->ref_count++] = ref;
    return true;
}

static bool
parse_after(struct dcp_scan *p, struct dcp_token t)
{
    struct dcp_token item;
    uint32_t n;

    while (dcp_token_next(&t, ',', &item))
        if (!dcp_scan_name(p, item, 'n', &n) || !dcp_scan_push(p, n))
            return false;
    if (!p->number_count)
        return dcp_scan_fail(p, "no node after 'after='");
    return true;
}

/* --- a node's line ------------------------------------------------------- */

static bool
parse_common(struct dcp_scan *p, unsigned key, struct dcp_token value,
             struct dcp_ir_node *node)
{
    switch (key) {
    case KEY_SYNC:
        return node->sync = true;
    case KEY_CARRIED:
        return node->carried = true;
    case KEY_AFTER:
        return parse_after(p, value);
    case KEY_CALL:
        return dcp_scan_number32(p, value, &node->call);
    default:
        return parse_ref(p, key - KEY_ACCESS, value);
    }
}

static bool
parse_key(struct dcp_scan *p, struct dcp_token t, struct dcp_ir_node *node,
          uint64_t *seen)
{
    struct dcp_token key = t, value = t;
    bool valued = dcp_token_cut(&value, '=', &key);
    int i = dcp_words_find(&key_words, key.at, key.length);
    bool flag = i == KEY_SYNC || i == KEY_CARRIED;

    if (i < 0)
        return dcp_scan_unknown(p, "key", key, &key_words);
    if (valued == flag)
        return dcp_scan_fail(p, "'%s' takes %s value", key_list[i],
                             flag ? "no" : "a");
    if (i < KEY_ACCESS && !dcp_scan_once(p, seen, (unsigned)i, key))
        return false;
    if (i >= KEY_SYNC)
        return parse_common(p, (unsigned)i, value, node);
    for (unsigned f = 0; f < FIELD_COUNT; f++)
        if (fields[f].ops >> node->op & 1 &&
            dcp_token_is(key, fields[f].key))
            return set_field(p, value, &fields[f], node);
    return dcp_scan_fail(p, "'%s' says nothing about a '%s'", key_list[i],
                         dcp_op_text(node->op));
}

/* Where the node keeps the thing that a sigil names; NULL: it has none. */
static uint32_t *
object(struct dcp_ir_node *node, char sigil)
{
    unsigned properties = dcp_op_properties(node->op);

    if (sigil == '@')
        return &node->stream;
    if (sigil == '$' && node->op == DCP_OP_LAUNCH)
        return &node->launch.kernel;
    if (sigil == '%' && properties & DCP_IS_MEMORY)
        return &node->memory.buffer;
    if (sigil == '!' && properties & (DCP_IS_EVENT | DCP_IS_CUT))
        return &node->sync_on.event;
    return NULL;
}

enum { SEEN_STREAM = 62, SEEN_OBJECT = 63, SEEN_LABEL = 61 };

static bool
parse_item(struct dcp_scan *p, struct dcp_token t, struct dcp_ir_node *node,
           uint64_t *seen)
{
    char c = t.at[0];

    if (c == '"') {
        if (!(dcp_op_properties(node->op) & DCP_IS_CUT))
            return dcp_scan_fail(p, "a '%s' has no label",
                                 dcp_op_text(node->op));
        return dcp_scan_once(p, seen, SEEN_LABEL, t) &&
               (node->sync_on.label = dcp_scan_string(p, t)) != NULL;
    }
    if (c == '@' || c == '$' || c == '%' || c == '!') {
        uint32_t *at = object(node, c);

        if (!at)
            return dcp_scan_fail(p, "a '%s' has no %cNUMBER of its own",
                                 dcp_op_text(node->op), c);
        return dcp_scan_once(p, seen, c == '@' ? SEEN_STREAM : SEEN_OBJECT,
                             t) &&
               dcp_scan_name(p, t, c, at);
    }
    return parse_key(p, t, node, seen);
}

/* Reads the time from a comment that begins "# N ns". */
static void
read_time(struct dcp_scan *p, struct dcp_ir_node *node)
{
    const char *c = p->at;
    uint64_t ns = 0;

    if (p->line_end - c < 3 || c[0] != '#' || c[1] != ' ')
        return;
    for (c += 2; c < p->line_end && *c >= '0' && *c <= '9'; c++) {
        if (ns > UINT64_MAX / 10 - 1)
            return;
        ns = ns * 10 + (uint64_t)(*c - '0');
    }
    if (p->line_end - c >= 3 && !memcmp(c, " ns", 3))
        node->gpu_ns = ns;
}

/* Hands over what the line collected. */
static bool
finish(struct dcp_scan *p, struct dcp_ir_node *node)
{
    struct dcp_graph *graph = p->graph;

    if (p->ref_count) {
        if (!dcp_ir_add_refs(graph, node, p->ref_count))
            return dcp_scan_no_memory(p);
        memcpy(node->refs, p->refs, p->ref_count * sizeof *p->refs);
    }
    if (p->number_count) {
        if (!dcp_ir_add_after(graph, node, p->number_count))
            return dcp_scan_no_memory(p);
        memcpy(node->after, p->numbers, p->number_count * sizeof *p->numbers);
    }
    if (dcp_op_properties(node->op) & DCP_IS_CUT && node->sync_on.label &&
        !(node->sync_on.label = dcp_arena_strdup(&graph->arena,
                                                 node->sync_on.label)))
        return dcp_scan_no_memory(p);
    read_time(p, node);
    return true;
}

bool
dcp_parse_node(struct dcp_scan *p, struct dcp_token t)
{
    struct dcp_graph *graph = p->graph;
    struct dcp_ir_node *node;
    uint64_t seen = 0;
    uint32_t n;
    uint8_t op;

    if (!dcp_scan_name(p, t, 'n', &n))
        return false;
    if (n != graph->node_count)
        return dcp_scan_fail(p, "node '%s' comes out of order, expected n%u",
                             dcp_scan_show(t).text,
                             (unsigned)graph->node_count);
    if (!dcp_scan_token(p, &t))
        return dcp_scan_fail(p, "operation missing");
    if (!dcp_scan_word(p, "operation", t, &dcp_op_words, &op))
        return false;
    if (!(node = dcp_ir_add_node(graph, op, DCP_NONE)))
        return dcp_scan_no_memory(p);
    node->part = p->part;
    node->micro = p->micro;
    p->ref_count = p->number_count = 0;
    while (dcp_scan_token(p, &t))
        if (!parse_item(p, t, node, &seen))
            return false;
    return !p->status && finish(p, node);
}
