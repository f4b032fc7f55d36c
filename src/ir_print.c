/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "src/ir.h"
#include "src/alloc.h"
#include "src/ir_live.h"

#include <stdlib.h>
#include <string.h>

struct printer {
    const struct dcp_graph *graph;
    unsigned flags;
    dcp_ir_sink *sink;
    void *user;
    enum dcp_status status; /* the first that went wrong */

    struct dcp_arena arena;
    char *line; /* being made */
    size_t length, room;

    struct dcp_live live; /* with DCP_PRINT_NOTES */
    const struct dcp_ir_fault **faults; /* in order of printing */
    uint32_t fault_count, fault_next;
};

/* --- pieces of a line ---------------------------------------------------- */

static void
put(struct printer *p, const char *text, size_t length)
{
    if (p->status)
        return;
    if (length > p->room - p->length) {
        size_t room = 2 * (p->length + length) + 256;
        char *line = dcp_arena_alloc(&p->arena, room);

        if (!line) {
            p->status = DCP_NOMEM;
            return;
        }
        if (p->length)
            memcpy(line, p->line, p->length);
        p->line = line;
        p->room = room;
    }
    memcpy(p->line + p->length, text, length);
    p->length += length;
}

static void
put_text(struct printer *p, const char *text)
{
    put(p, text, strlen(text));
}

static void
put_number(struct printer *p, const char *before, uint64_t value)
{
    char digits[20];
    int i = sizeof digits;

    do
        digits[--i] = (char)('0' + value % 10);
    while (value /= 10);
    put_text(p, before);
    put(p, digits + i, sizeof digits - i);
}

static void
put_hex(struct printer *p, const char *before, uint64_t value)
{
    char digits[16];
    int i = sizeof digits;

    do
        digits[--i] = "0123456789abcdef"[value % 16];
    while (value /= 16);
    put_text(p, before);
    put(p, digits + i, sizeof digits - i);
}

/* A numbered thing; "-" stands for none. */
static void
put_name(struct printer *p, const char *sigil, uint32_t number)
{
    if (number != DCP_NONE) {
        put_number(p, sigil, number);
        return;
    }
    put_text(p, sigil);
    put_text(p, "-");
}

static void
put_word(struct printer *p, const char *key, const char *word)
{
    put_text(p, key);
    put_text(p, word);
}

static void
put_string(struct printer *p, const char *text)
{
    put_text(p, " \"");
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        const char hex[] = "0123456789abcdef";

        if (c == '"' || c == '\\')
            put(p, (char[]) { '\\', (char)c }, 2);
        else if (c == '\n')
            put(p, "\\n", 2);
        else if (c == '\t')
            put(p, "\\t", 2);
        else if (c < 0x20 || c == 0x7f)
            put(p, (char[]) { '\\', 'x', hex[c / 16], hex[c % 16] }, 4);
        else
            put(p, text, 1);
    }
    put(p, "\"", 1);
}

static void
end_line(struct printer *p)
{
    put(p, "\n", 1);
    if (!p->status && !p->sink(p->user, p->line, p->length))
        p->status = DCP_IO;
    p->length = 0;
}

/* --- what is wrong with it ----------------------------------------------- */

static int
by_place(const void *a, const void *b)
{
    const struct dcp_ir_fault *f = *(const struct dcp_ir_fault *const *)a;
    const struct dcp_ir_fault *g = *(const struct dcp_ir_fault *const *)b;

    if (f->where != g->where)
        return f->where < g->where ? -1 : 1;
    if (f->index != g->index)
        return f->index < g->index ? -1 : 1;
    return f < g ? -1 : f > g;
}

static void
sort_faults(struct printer *p, const struct dcp_ir_faults *faults)
{
    if (!faults || !faults->kept)
        return;
    p->faults = dcp_arena_alloc(&p->arena, faults->kept * sizeof *p->faults);
    if (!p->faults) {
        p->status = DCP_NOMEM;
        return;
    }
    for (uint32_t i = 0; i < faults->kept; i++)
        p->faults[i] = &faults->list[i];
    p->fault_count = faults->kept;
    qsort(p->faults, p->fault_count, sizeof *p->faults, by_place);
}

/* The faults of the line just printed, each on a comment line of its own. */
static void
print_faults(struct printer *p, unsigned where, uint32_t index)
{
    while (p->fault_next < p->fault_count) {
        const struct dcp_ir_fault *fault = p->faults[p->fault_next];

        if (fault->where > where ||
            (fault->where == where && fault->index > index))
            return;
        put_text(p, "# ^ broken: ");
        put_text(p, fault->text);
        end_line(p);
        p->fault_next++;
    }
}

/* --- declarations -------------------------------------------------------- */

static void
print_head(struct printer *p)
{
    const struct dcp_graph *g = p->graph;

    put_text(p, "dcprel-ir 1");
    end_line(p);
    put_hex(p, "step key=", g->key);
    put_number(p, " rank=", p->flags & DCP_PRINT_NO_RANK ? 0 : g->rank);
    put_number(p, "/", g->world);
    put_number(p, " streams=", g->stream_count);
    put_number(p, " events=", g->event_count);
    put_number(p, " micro=", g->micro_count);
    if (g->arena_bytes)
        put_number(p, " arena=", g->arena_bytes);
    if (p->flags & DCP_PRINT_NOTES) {
        put_number(p, "    # peak ", p->live.peak);
        put_text(p, " bytes");
        if (p->live.peak_node != DCP_NONE)
            put_number(p, " at n", p->live.peak_node);
    }
    end_line(p);
    print_faults(p, DCP_FAULT_GRAPH, UINT32_MAX);
}

static void
note_life(struct printer *p, uint32_t i)
{
    const struct dcp_live *live = &p->live;

    put_text(p, "    # live");
    if (live->alloc[i] != DCP_NONE)
        put_number(p, " n", live->alloc[i]);
    put_text(p, live->alloc[i] == DCP_NONE ? " .." : "..");
    if (live->free[i] != DCP_NONE)
        put_number(p, "n", live->free[i]);
    if (live->first[i] == DCP_NONE) {
        put_text(p, ", not used");
        return;
    }
    put_number(p, ", used n", live->first[i]);
    put_number(p, "..n", live->last[i]);
}

static void
print_buffer(struct printer *p, uint32_t i)
{
    const struct dcp_ir_buffer *b = &p->graph->buffers[i];

    put_number(p, "buf %", i);
    put_word(p, " ", dcp_role_text(b->role));
    put_number(p, " bytes=", b->bytes);
    if (b->persistent)
        put_text(p, " persistent");
    if (b->place != DCP_NO_PLACE)
        put_number(p, " at=", b->place);
    if (b->label)
        put_string(p, b->label);
    if (p->flags & DCP_PRINT_NOTES)
        note_life(p, i);
    end_line(p);
    print_faults(p, DCP_FAULT_BUFFER, i);
}

static void
print_kernel(struct printer *p, uint32_t i)
{
    const struct dcp_ir_kernel *k = &p->graph->kernels[i];

    put_number(p, "fn $", i);
    put_string(p, k->name);
    if (!k->known)
        put_text(p, " params=?");
    for (uint32_t j = 0; j < k->param_count; j++) {
        put_number(p, j ? "," : " params=", k->params[j].offset);
        put_number(p, ":", k->params[j].bytes);
    }
    end_line(p);
    print_faults(p, DCP_FAULT_KERNEL, i);
}

/* --- nodes --------------------------------------------------------------- */

static void
put_triple(struct printer *p, const char *key, const uint32_t v[3])
{
    if (v[0] == 1 && v[1] == 1 && v[2] == 1)
        return;
    put_number(p, key, v[0]);
    put_number(p, ",", v[1]);
    put_number(p, ",", v[2]);
}

/* key=value unless it is the default. */
static void
put_field(struct printer *p, const char *key, uint64_t value, uint64_t usual)
{
    if (value != usual)
        put_number(p, key, value);
}

/* What the node is about: comes right after its operation. */
static void
print_object(struct printer *p, const struct dcp_ir_node *n)
{
    switch (n->op) {
    case DCP_OP_LAUNCH:
        put_name(p, " $", n->launch.kernel);
        break;
    case DCP_OP_RECORD:
    case DCP_OP_WAIT:
        put_name(p, " !", n->sync_on.event);
        break;
    case DCP_OP_ALLOC:
    case DCP_OP_FREE:
        put_name(p, " %", n->memory.buffer);
        break;
    case DCP_OP_HOST:
    case DCP_OP_OPAQUE:
        if (n->sync_on.event != DCP_NONE)
            put_name(p, " !", n->sync_on.event);
        if (n->sync_on.label)
            put_string(p, n->sync_on.label);
        break;
    default:
        break;
    }
}

static void
print_payload(struct printer *p, const struct dcp_ir_node *n)
{
    if (n->op == DCP_OP_LAUNCH) {
        put_triple(p, " grid=", n->launch.grid);
        put_triple(p, " block=", n->launch.block);
        put_field(p, " shared=", n->launch.shared, 0);
        if (n->launch.attrs)
            put_hex(p, " attrs=", n->launch.attrs);
    } else if (n->op == DCP_OP_COPY) {
        put_field(p, " bytes=", n->copy.bytes, 0);
        if (n->copy.to != DCP_IR_DEVICE)
            put_word(p, " to=", dcp_ir_place_text(n->copy.to));
        if (n->copy.from != DCP_IR_DEVICE)
            put_word(p, " from=", dcp_ir_place_text(n->copy.from));
    } else if (n->op == DCP_OP_FILL) {
        put_field(p, " width=", n->fill.width, 0);
        put_field(p, " height=", n->fill.height, 1);
        put_field(p, " pitch=", n->fill.pitch, 0);
        put_field(p, " value=", n->fill.value, 0);
        put_field(p, " element=", n->fill.element, 1);
    } else if (dcp_op_properties(n->op) & DCP_IS_OURS) {
        put_field(p, " bytes=", n->move.bytes, 0);
        put_field(p, " root=", n->move.root, 0);
        if (n->move.dtype)
            put_word(p, " dtype=", dcp_dtype_text(n->move.dtype));
        if (n->move.reduction)
            put_word(p, " red=", dcp_reduction_text(n->move.reduction));
    }
}

static void
print_ref(struct printer *p, const struct dcp_ir_ref *ref)
{
    static const char *const text[] = { "-", "r", "w", "rw",
                                        "?", "r?", "w?", "rw?" };

    put_word(p, " ", text[ref->access & 7]);
    put_name(p, "=%", ref->buffer);
    put_field(p, ":", ref->slot, 0);
    put_field(p, "+", ref->offset, 0);
}

static void
note_node(struct printer *p, uint32_t i)
{
    put_text(p, "    #");
    if (p->graph->nodes[i].gpu_ns) {
        put_number(p, " ", p->graph->nodes[i].gpu_ns);
        put_text(p, " ns,");
    }
    put_number(p, " live ", p->live.bytes[i]);
}

static void
print_node(struct printer *p, uint32_t i)
{
    const struct dcp_ir_node *n = &p->graph->nodes[i];

    put_number(p, "n", i);
    put_word(p, " ", dcp_op_text(n->op));
    print_object(p, n);
    if (n->stream != DCP_NONE)
        put_number(p, " @", n->stream);
    print_payload(p, n);
    if (n->sync)
        put_text(p, " sync");
    if (n->carried)
        put_text(p, " carried");
    for (uint32_t r = 0; r < n->ref_count; r++)
        print_ref(p, &n->refs[r]);
    for (uint32_t a = 0; a < n->after_count; a++)
        put_name(p, a ? ",n" : " after=n", n->after[a]);
    put_field(p, " call=", n->call, DCP_NONE);
    if (p->flags & DCP_PRINT_NOTES)
        note_node(p, i);
    end_line(p);
    print_faults(p, DCP_FAULT_NODE, i);
}

/* A mark holds for the nodes that follow it, until the next. */
static void
print_mark(struct printer *p, const struct dcp_ir_node *n)
{
    put_text(p, "mark");
    if (n->part)
        put_word(p, " part=", dcp_part_text(n->part));
    put_field(p, " micro=", n->micro, 0);
    end_line(p);
}

static void
print_nodes(struct printer *p)
{
    uint8_t part = DCP_PART_NONE;
    uint16_t micro = 0;

    for (uint32_t i = 0; i < p->graph->node_count && !p->status; i++) {
        const struct dcp_ir_node *n = &p->graph->nodes[i];

        if (n->part != part || n->micro != micro)
            print_mark(p, n);
        part = n->part;
        micro = n->micro;
        print_node(p, i);
    }
}

enum dcp_status
dcp_ir_print(const struct dcp_graph *graph, unsigned flags,
             const struct dcp_ir_faults *faults, dcp_ir_sink *sink, void *user)
{
    struct printer p = {
        .graph = graph, .flags = flags, .sink = sink, .user = user,
    };

    sort_faults(&p, faults);
    if (!p.status && flags & DCP_PRINT_NOTES)
        p.status = dcp_live_fill(graph, &p.arena, &p.live);
    if (!p.status)
        print_head(&p);
    for (uint32_t i = 0; i < graph->buffer_count && !p.status; i++)
        print_buffer(&p, i);
    for (uint32_t i = 0; i < graph->kernel_count && !p.status; i++)
        print_kernel(&p, i);
    print_nodes(&p);
    dcp_arena_release(&p.arena);
    return p.status;
}

/* --- into memory --------------------------------------------------------- */

struct text {
    char *bytes;
    size_t length, room;
};

static bool
append(void *user, const char *line, size_t length)
{
    struct text *text = user;

    if (length >= text->room - text->length) {
        size_t room = 2 * (text->length + length) + 4096;
        char *bytes = dcp_realloc(text->bytes, room);

        if (!bytes)
            return false;
        text->bytes = bytes;
        text->room = room;
    }
    memcpy(text->bytes + text->length, line, length);
    text->length += length;
    text->bytes[text->length] = '\0';
    return true;
}

char *
dcp_ir_print_text(const struct dcp_graph *graph, unsigned flags,
                  size_t *length)
{
    struct text text = { 0 };

    if (dcp_ir_print(graph, flags, NULL, append, &text)) {
        free(text.bytes);
        return NULL;
    }
    if (length)
        *length = text.length;
    return text.bytes;
}
