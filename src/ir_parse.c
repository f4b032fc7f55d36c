/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "src/ir.h"
#include "src/ir_scan.h"
#include "src/ir_word.h"

#include <string.h>

/* --- declarations -------------------------------------------------------- */

static bool
parse_version(struct dcp_scan *p, struct dcp_token t)
{
    struct dcp_token version;

    if (!dcp_token_is(t, "dcprel-ir"))
        return dcp_scan_fail(p, "expected 'dcprel-ir 1', found '%s'",
                             dcp_scan_show(t).text);
    if (!dcp_scan_token(p, &version))
        return dcp_scan_fail(p, "version missing after 'dcprel-ir'");
    if (!dcp_token_is(version, "1"))
        return dcp_scan_fail(p, "version '%s' is not supported, only 1",
                             dcp_scan_show(version).text);
    p->versioned = true;
    return true;
}

static bool
step_field(struct dcp_scan *p, unsigned key, struct dcp_token value)
{
    struct dcp_graph *g = p->graph;
    struct dcp_token rank;

    switch (key) {
    case 0:
        return dcp_scan_hex(p, value, &g->key);
    case 1:
        if (!dcp_token_cut(&value, '/', &rank))
            return dcp_scan_fail(p, "rank is RANK/WORLD, as in rank=0/8");
        return dcp_scan_number32(p, rank, &g->rank) &&
               dcp_scan_number32(p, value, &g->world);
    case 2:
        return dcp_scan_number32(p, value, &g->stream_count);
    case 3:
        return dcp_scan_number32(p, value, &g->event_count);
    case 4:
        return dcp_scan_number32(p, value, &g->micro_count);
    default:
        return dcp_scan_number(p, value, UINT64_MAX, &g->arena_bytes);
    }
}

static bool
parse_step(struct dcp_scan *p)
{
    static const char *const keys[] = { "key",    "rank",  "streams",
                                        "events", "micro", "arena" };
    static const struct dcp_words words = { keys, 6 };
    struct dcp_token t, key;
    uint64_t seen = 0;

    if (p->stepped)
        return dcp_scan_fail(p, "a second 'step' line");
    p->stepped = true;
    while (dcp_scan_token(p, &t)) {
        if (!dcp_token_cut(&t, '=', &key))
            return dcp_scan_fail(p, "expected KEY=VALUE, found '%s'",
                                 dcp_scan_show(t).text);
        int i = dcp_words_find(&words, key.at, key.length);
        if (i < 0)
            return dcp_scan_unknown(p, "key", key, &words);
        if (!dcp_scan_once(p, &seen, (unsigned)i, key) ||
            !step_field(p, (unsigned)i, t))
            return false;
    }
    return !p->status;
}

static bool
declared(struct dcp_scan *p, const char *what, char sigil, uint32_t count)
{
    struct dcp_token t;
    uint32_t n;

    if (!dcp_scan_token(p, &t))
        return dcp_scan_fail(p, "%cNUMBER missing after '%s'", sigil, what);
    if (!dcp_scan_name(p, t, sigil, &n))
        return false;
    if (n != count)
        return dcp_scan_fail(p, "'%s %s' comes out of order, expected %c%u",
                             what, dcp_scan_show(t).text, sigil,
                             (unsigned)count);
    return true;
}

static bool
buffer_field(struct dcp_scan *p, struct dcp_token t,
             struct dcp_ir_buffer *buffer, uint64_t *seen)
{
    static const char *const keys[] = { "bytes", "at", "persistent" };
    static const struct dcp_words words = { keys, 3 };
    struct dcp_token key = t, value = t;
    bool valued = dcp_token_cut(&value, '=', &key);
    int i = dcp_words_find(&words, key.at, key.length);

    if (t.at[0] == '"')
        return dcp_scan_once(p, seen, 3, t) &&
               (buffer->label = dcp_scan_string(p, t)) != NULL;
    if (i < 0)
        return dcp_scan_unknown(p, "key", key, &words);
    if (valued != (i < 2))
        return dcp_scan_fail(p, "'%s' takes %s value", keys[i],
                             i < 2 ? "a" : "no");
    if (!dcp_scan_once(p, seen, (unsigned)i, key))
        return false;
    if (i == 2)
        return buffer->persistent = true;
    return dcp_scan_number(p, value, UINT64_MAX - (i == 1),
                           i ? &buffer->place : &buffer->bytes);
}

static bool
parse_buffer(struct dcp_scan *p)
{
    struct dcp_ir_buffer buffer = { .place = DCP_NO_PLACE };
    struct dcp_token t;
    uint64_t seen = 0;

    if (!declared(p, "buf", '%', p->graph->buffer_count))
        return false;
    if (!dcp_scan_token(p, &t))
        return dcp_scan_fail(p, "role missing");
    if (!dcp_scan_word(p, "role", t, &dcp_role_words, &buffer.role))
        return false;
    while (dcp_scan_token(p, &t))
        if (!buffer_field(p, t, &buffer, &seen))
            return false;
    if (p->status)
        return false;
    uint32_t i = dcp_ir_add_buffer(p->graph, buffer.role, buffer.bytes,
                                   buffer.persistent, buffer.label);
    if (i == DCP_NONE)
        return dcp_scan_no_memory(p);
    p->graph->buffers[i].place = buffer.place;
    return true;
}

/* OFFSET:BYTES,... into p->numbers, two each. */
static bool
parse_layout(struct dcp_scan *p, struct dcp_token t)
{
    struct dcp_token item, offset;
    uint32_t a, b;

    while (dcp_token_next(&t, ',', &item)) {
        if (!dcp_token_cut(&item, ':', &offset))
            return dcp_scan_fail(p, "a parameter is OFFSET:BYTES, found '%s'",
                                 dcp_scan_show(item).text);
        if (!dcp_scan_number32(p, offset, &a) ||
            !dcp_scan_number32(p, item, &b) || !dcp_scan_push(p, a) ||
            !dcp_scan_push(p, b))
            return false;
    }
    return !p->status;
}

static bool
add_kernel(struct dcp_scan *p, const char *text, bool known)
{
    _Static_assert(sizeof(struct dcp_ir_param) == 2 * sizeof(uint32_t),
                   "a layout is pairs of numbers");

    if (dcp_ir_add_kernel(p->graph, text, known,
                          (const struct dcp_ir_param *)(void *)p->numbers,
                          p->number_count / 2) == DCP_NONE)
        return dcp_scan_no_memory(p);
    return true;
}

static bool
parse_kernel(struct dcp_scan *p)
{
    struct dcp_token t, key;
    bool known = true;
    char *text;

    if (!declared(p, "fn", '$', p->graph->kernel_count))
        return false;
    if (!dcp_scan_token(p, &t) || t.at[0] != '"')
        return dcp_scan_fail(p, "the kernel's name in quotes is missing");
    if (!(text = dcp_scan_string(p, t)))
        return false;
    p->number_count = 0;
    if (dcp_scan_token(p, &t)) {
        if (!dcp_token_cut(&t, '=', &key) || !dcp_token_is(key, "params"))
            return dcp_scan_fail(p, "expected params=, found '%s'",
                                 dcp_scan_show(t).text);
        known = !dcp_token_is(t, "?");
        if (known && !parse_layout(p, t))
            return false;
        if (dcp_scan_token(p, &t))
            return dcp_scan_fail(p, "'%s' is too much", dcp_scan_show(t).text);
    }
    return !p->status && add_kernel(p, text, known);
}

static bool
parse_mark(struct dcp_scan *p)
{
    static const char *const keys[] = { "part", "micro" };
    static const struct dcp_words words = { keys, 2 };
    struct dcp_token t, key;
    uint64_t seen = 0, micro = 0;

    p->part = DCP_PART_NONE;
    while (dcp_scan_token(p, &t)) {
        if (!dcp_token_cut(&t, '=', &key))
            return dcp_scan_fail(p, "expected KEY=VALUE, found '%s'",
                                 dcp_scan_show(t).text);
        int i = dcp_words_find(&words, key.at, key.length);
        if (i < 0)
            return dcp_scan_unknown(p, "key", key, &words);
        if (!dcp_scan_once(p, &seen, (unsigned)i, key))
            return false;
        if (i == 0 ? !dcp_scan_word(p, "part", t, &dcp_part_words, &p->part)
                   : !dcp_scan_number(p, t, UINT16_MAX, &micro))
            return false;
    }
    p->micro = (uint16_t)micro;
    return !p->status;
}

/* --- the whole ----------------------------------------------------------- */

static bool
parse_line(struct dcp_scan *p, struct dcp_token t)
{
    static const char *const heads[] = { "dcprel-ir", "step", "buf", "fn",
                                         "mark" };
    static const struct dcp_words words = { heads, 5 };

    if (!p->versioned)
        return parse_version(p, t);
    if (dcp_token_is(t, "step"))
        return parse_step(p);
    if (!p->stepped)
        return dcp_scan_fail(p, "expected the 'step' line, found '%s'",
                             dcp_scan_show(t).text);
    if (dcp_token_is(t, "buf"))
        return parse_buffer(p);
    if (dcp_token_is(t, "fn"))
        return parse_kernel(p);
    if (dcp_token_is(t, "mark"))
        return parse_mark(p);
    if (t.at[0] == 'n' && t.length > 1 && t.at[1] >= '0' && t.at[1] <= '9')
        return dcp_parse_node(p, t);
    return dcp_scan_unknown(p, "kind of line", t, &words);
}

static bool
parse_text(struct dcp_scan *p)
{
    struct dcp_token t;

    while (dcp_scan_line(p)) {
        if (dcp_scan_token(p, &t) && !parse_line(p, t))
            return false;
        if (p->status)
            return false;
    }
    if (!p->line)
        p->line = 1;
    if (!p->versioned)
        return dcp_scan_fail(p, "no graph here, expected 'dcprel-ir 1'");
    if (!p->stepped)
        return dcp_scan_fail(p, "the 'step' line is missing");
    return true;
}

enum dcp_status
dcp_ir_parse(const char *text, size_t length, const char *file,
             struct dcp_graph **out, struct dcp_ir_error *error)
{
    struct dcp_scan p = {
        .file = file,
        .at = text,
        .end = text + length,
        .error = error,
        .graph = dcp_graph_create(),
    };

    if (p.graph ? parse_text(&p) : dcp_scan_no_memory(&p)) {
        *out = p.graph;
    } else {
        dcp_graph_destroy(p.graph);
    }
    dcp_arena_release(&p.scratch);
    return p.status;
}
