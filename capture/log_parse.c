/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "capture/log.h"

#include "src/arena.h"

#include "capture/kernel.h"

#include <string.h>

/* Text is untrusted: every number is range-checked, and memory is taken in
 * proportion to the length of the text. */
struct reader {
    struct dcp_arena *arena;
    struct dcp_access_table *access;
    const char *at, *end; /* of what is left of the line */
    uint32_t line;
    bool nomem;

    struct dcp_kernel **kernels; /* by id; some NULL */
    uint32_t kernel_room;
    struct dcp_log log;
    uint32_t call_room, buffer_room;
    uint64_t next_address;

    struct dcp_ref *refs; /* of the call that is being read */
    uint32_t ref_room;
};

static void
skip_blanks(struct reader *r)
{
    while (r->at < r->end && (*r->at == ' ' || *r->at == '\t'))
        r->at++;
}

static bool
eat(struct reader *r, char c)
{
    if (r->at == r->end || *r->at != c)
        return false;
    r->at++;
    return true;
}

static bool
eat_word(struct reader *r, const char *word)
{
    size_t n = strlen(word);

    if ((size_t)(r->end - r->at) < n || memcmp(r->at, word, n))
        return false;
    if (r->at + n < r->end && r->at[n] != ' ' && r->at[n] != '>')
        return false;
    r->at += n;
    return true;
}

static int
digit_of(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return 16;
}

static bool
eat_base(struct reader *r, unsigned base, uint64_t limit, uint64_t *out)
{
    const char *start = r->at;
    uint64_t value = 0;

    for (; r->at < r->end && digit_of(*r->at) < (int)base; r->at++) {
        unsigned digit = (unsigned)digit_of(*r->at);
        if (value > (limit - digit) / base)
            return false;
        value = value * base + digit;
    }
    *out = value;
    return r->at > start;
}

static bool
eat_u64(struct reader *r, uint64_t *out)
{
    return eat_base(r, 10, UINT64_MAX, out);
}

static bool
eat_u32(struct reader *r, uint32_t limit, uint32_t *out)
{
    uint64_t value;

    if (!eat_base(r, 10, limit, &value))
        return false;
    *out = (uint32_t)value;
    return true;
}

/* Grows an array by doubling; the old one stays in the arena. */
static bool
make_room(struct reader *r, void *array, uint32_t *room, uint32_t count,
          size_t element)
{
    void **place = array;

    if (count < *room)
        return true;
    uint32_t more = *room ? *room * 2 : 64;
    if (more <= count)
        more = count + 1;
    void *bigger = dcp_arena_alloc(r->arena, more * element);
    if (!bigger) {
        r->nomem = true;
        return false;
    }
    if (*room)
        memcpy(bigger, *place, *room * element);
    *place = bigger;
    *room = more;
    return true;
}

static bool
read_params(struct reader *r, struct dcp_kernel *kernel)
{
    struct dcp_kernel_param *params = NULL;
    uint32_t room = 0, count = 0;

    for (;; count++) {
        skip_blanks(r);
        if (r->at == r->end || digit_of(*r->at) > 9)
            break;
        if (!make_room(r, &params, &room, count, sizeof *params))
            return false;
        if (!eat_u32(r, 1 << 20, &params[count].offset) || !eat(r, ':') ||
            !eat_u32(r, 1 << 20, &params[count].bytes))
            return false;
        uint32_t end = params[count].offset + params[count].bytes;
        if (end > kernel->bytes)
            kernel->bytes = end;
    }
    kernel->params = params;
    kernel->param_count = count;
    kernel->known = true;
    return true;
}

/* The id may not run far ahead of what was seen, or it would cost memory
 * without text. */
static bool
read_kernel(struct reader *r)
{
    uint32_t id;

    skip_blanks(r);
    if (!eat_u32(r, r->line * 64 + 4096, &id) || id == 0 ||
        !make_room(r, &r->kernels, &r->kernel_room, id,
                   sizeof(struct dcp_kernel *)) ||
        r->kernels[id])
        return false;
    struct dcp_kernel *kernel = dcp_arena_alloc(r->arena, sizeof *kernel);
    if (!kernel) {
        r->nomem = true;
        return false;
    }
    kernel->id = id;
    skip_blanks(r);
    if (eat_word(r, "params")) {
        if (!read_params(r, kernel))
            return false;
    } else if (!eat_word(r, "unknown")) {
        return false;
    }
    skip_blanks(r);
    if (!eat_word(r, "name") || !eat(r, ' '))
        return false;
    size_t length = (size_t)(r->end - r->at);
    char *name = dcp_arena_alloc(r->arena, length + 1);
    if (!name) {
        r->nomem = true;
        return false;
    }
    memcpy(name, r->at, length);
    r->at = r->end;
    kernel->name = name;
    r->kernels[id] = kernel;
    return true;
}

static bool
read_access(struct reader *r)
{
    uint32_t kernel, slot;

    skip_blanks(r);
    if (!eat_u32(r, UINT32_MAX, &kernel) || kernel >= r->kernel_room ||
        !r->kernels[kernel])
        return false;
    for (;;) {
        uint8_t access = 0;
        skip_blanks(r);
        if (r->at == r->end)
            return true;
        if (!eat_u32(r, 1 << 20, &slot) || !eat(r, '='))
            return false;
        access |= eat(r, 'r') ? DCP_READ : 0;
        access |= eat(r, 'w') ? DCP_WRITE : 0;
        if (!access)
            return false;
        if (r->access && dcp_access_set(r->access, kernel, slot, access)) {
            r->nomem = true;
            return false;
        }
    }
}

static bool
read_buffer(struct reader *r)
{
    uint32_t number;
    uint64_t bytes;

    skip_blanks(r);
    if (!eat_u32(r, UINT32_MAX, &number) || number != r->log.buffer_count)
        return false;
    skip_blanks(r);
    if (!eat_base(r, 10, (uint64_t)1 << 44, &bytes) ||
        !make_room(r, &r->log.buffers, &r->buffer_room, number,
                   sizeof *r->log.buffers))
        return false;
    r->log.buffers[number] = (struct dcp_log_buffer){
        .block = number + 1,
        .address = r->next_address,
        .bytes = bytes,
        .alloc_call = UINT32_MAX,
        .free_call = UINT32_MAX,
    };
    r->next_address += (bytes + 1023) & ~(uint64_t)511;
    r->log.buffer_count++;
    return true;
}

static bool
read_ref(struct reader *r, struct dcp_ref *ref)
{
    *ref = (struct dcp_ref){0};
    if (!eat_u32(r, UINT32_MAX, &ref->slot) || !eat(r, '@') ||
        !eat_u32(r, UINT32_MAX, &ref->buffer) ||
        ref->buffer >= r->log.buffer_count)
        return false;
    if (eat(r, '+') && !eat_u64(r, &ref->offset))
        return false;
    return ref->offset <= r->log.buffers[ref->buffer].bytes;
}

static bool
read_refs(struct reader *r, struct dcp_call *call)
{
    uint32_t count = 0;

    for (;; count++) {
        skip_blanks(r);
        if (r->at == r->end || digit_of(*r->at) > 9)
            break;
        if (count == UINT16_MAX ||
            !make_room(r, &r->refs, &r->ref_room, count, sizeof *r->refs) ||
            !read_ref(r, &r->refs[count]))
            return false;
    }
    if (count == 0)
        return true;
    call->refs = dcp_arena_copy(r->arena, r->refs, count * sizeof *r->refs);
    call->ref_count = (uint16_t)count;
    r->nomem = !call->refs;
    return call->refs;
}

static bool
read_dims(struct reader *r, uint32_t dims[3])
{
    dims[1] = dims[2] = 1;
    if (!eat_u32(r, UINT32_MAX, &dims[0]))
        return false;
    if (eat(r, 'x') && !eat_u32(r, UINT32_MAX, &dims[1]))
        return false;
    return !eat(r, 'x') || eat_u32(r, UINT32_MAX, &dims[2]);
}

static bool
read_bytes(struct reader *r, struct dcp_call *call)
{
    size_t bytes = (size_t)(r->end - r->at) / 2;
    uint8_t *to = dcp_arena_alloc(r->arena, bytes);

    if (!to) {
        r->nomem = true;
        return false;
    }
    call->launch.params = to;
    uint32_t n = 0;
    while (r->end - r->at >= 2 && digit_of(r->at[0]) < 16 &&
           digit_of(r->at[1]) < 16) {
        to[n++] = (uint8_t)(digit_of(r->at[0]) << 4 | digit_of(r->at[1]));
        r->at += 2;
    }
    call->launch.bytes = n;
    return true;
}

static bool
read_launch(struct reader *r, struct dcp_call *call)
{
    uint32_t id;

    if (!eat(r, 'k') || !eat_u32(r, UINT32_MAX, &id) || id >= r->kernel_room ||
        !r->kernels[id])
        return false;
    call->launch.kernel = r->kernels[id];
    skip_blanks(r);
    if (!read_dims(r, call->launch.grid) || !eat(r, '/') ||
        !read_dims(r, call->launch.block))
        return false;
    skip_blanks(r);
    if (eat(r, 'm') && !eat_u32(r, UINT32_MAX, &call->launch.shared))
        return false;
    skip_blanks(r);
    if (eat(r, 'a') && !eat_base(r, 16, UINT64_MAX, &call->launch.attrs))
        return false;
    skip_blanks(r);
    call->sync = eat_word(r, "sync");
    if (!read_refs(r, call))
        return false;
    return !eat(r, '=') || read_bytes(r, call);
}

static bool
read_place(struct reader *r, uint8_t *place)
{
    for (uint8_t i = DCP_PLACE_DEVICE; i <= DCP_PLACE_PAGEABLE; i++) {
        if (eat_word(r, dcp_place_text(i))) {
            *place = i;
            return true;
        }
    }
    return false;
}

static bool
read_fill(struct reader *r, struct dcp_call *call)
{
    uint32_t element;

    if (!eat_u64(r, &call->fill.width) || !eat(r, 'x') ||
        !eat_u64(r, &call->fill.height) || !eat(r, '/') ||
        !eat_u32(r, 4, &element) || element == 0 || element == 3)
        return false;
    call->fill.element = (uint8_t)element;
    skip_blanks(r);
    if (!eat(r, 'v') || !eat_u32(r, UINT32_MAX, &call->fill.value))
        return false;
    skip_blanks(r);
    return !eat(r, 'p') || eat_u64(r, &call->fill.pitch);
}

static bool
read_event(struct reader *r, struct dcp_call *call)
{
    uint32_t event;

    if (!eat(r, 'e') || !eat_u32(r, UINT32_MAX, &event))
        return false;
    call->event.event = event;
    skip_blanks(r);
    return !eat(r, 'f') || eat_u32(r, UINT32_MAX, &call->event.flags);
}

static bool
read_memory(struct reader *r, struct dcp_call *call)
{
    uint32_t number;

    if (!eat(r, 'b') || !eat_u32(r, UINT32_MAX, &number) ||
        number >= r->log.buffer_count)
        return false;
    struct dcp_log_buffer *buffer = &r->log.buffers[number];
    uint32_t *when = &buffer->free_call;
    if (call->op == DCP_CALL_ALLOC) {
        when = &buffer->alloc_call;
        if (buffer->free_call != UINT32_MAX)
            return false;
    }
    if (*when != UINT32_MAX)
        return false;
    *when = r->log.call_count;
    call->memory.buffer = number;
    call->memory.address = buffer->address;
    call->memory.bytes = buffer->bytes;
    return true;
}

static uint64_t
address_of(const struct reader *r, const struct dcp_call *call, uint32_t slot)
{
    for (uint32_t i = 0; i < call->ref_count; i++)
        if (call->refs[i].slot == slot)
            return r->log.buffers[call->refs[i].buffer].address +
                   call->refs[i].offset;
    return 0;
}

static bool
read_fields(struct reader *r, struct dcp_call *call)
{
    switch ((enum dcp_call_op)call->op) {
    case DCP_CALL_LAUNCH:
        return read_launch(r, call);
    case DCP_CALL_COPY:
        if (!eat_u64(r, &call->copy.bytes))
            return false;
        skip_blanks(r);
        return read_place(r, &call->copy.src_place) && eat(r, '>') &&
               read_place(r, &call->copy.dst_place);
    case DCP_CALL_FILL:
        return read_fill(r, call);
    case DCP_CALL_RECORD:
    case DCP_CALL_DEPEND:
        return read_event(r, call);
    case DCP_CALL_ALLOC:
    case DCP_CALL_FREE:
        return read_memory(r, call);
    case DCP_CALL_WAIT:
    case DCP_CALL_OPAQUE:
        return true;
    }
    return false;
}

static bool
read_call(struct reader *r, uint8_t op)
{
    struct dcp_log *log = &r->log;
    uint32_t stream, thread;

    if (!make_room(r, &log->calls, &r->call_room, log->call_count,
                   sizeof *log->calls))
        return false;
    struct dcp_call *call = &log->calls[log->call_count];
    *call = (struct dcp_call){.op = op};
    skip_blanks(r);
    if (eat(r, '-'))
        call->stream = 0;
    else if (eat_u32(r, UINT32_MAX, &stream))
        call->stream = (uint64_t)stream + 1;
    else
        return false;
    if (!eat(r, '.') || !eat_u32(r, UINT16_MAX, &thread))
        return false;
    call->thread = (uint16_t)thread;
    skip_blanks(r);
    if (!read_fields(r, call))
        return false;
    if (op != DCP_CALL_LAUNCH) {
        skip_blanks(r);
        call->sync = eat_word(r, "sync");
        if (!read_refs(r, call))
            return false;
    }
    if (op == DCP_CALL_COPY) {
        call->copy.dst = address_of(r, call, 0);
        call->copy.src = address_of(r, call, 8);
    } else if (op == DCP_CALL_FILL) {
        call->fill.dst = address_of(r, call, 0);
    }
    log->call_count++;
    return true;
}

static bool
read_line(struct reader *r)
{
    skip_blanks(r);
    if (r->at == r->end)
        return true;
    if (eat_word(r, "kernel"))
        return read_kernel(r);
    for (const char *c = r->at; c < r->end; c++)
        if (*c == '#')
            r->end = c;
    if (r->at == r->end)
        return true;
    bool good = false;
    if (eat_word(r, "buffer")) {
        good = read_buffer(r);
    } else if (eat_word(r, "access")) {
        good = read_access(r);
    } else {
        for (uint8_t i = 0; i <= DCP_CALL_OPAQUE && !good; i++) {
            if (eat_word(r, dcp_call_text(i))) {
                good = read_call(r, i);
                break;
            }
        }
    }
    skip_blanks(r);
    return good && r->at == r->end;
}

enum dcp_status
dcp_log_parse(const char *text, size_t bytes, struct dcp_arena *arena,
              struct dcp_log *out, struct dcp_access_table *access,
              uint32_t *line)
{
    static const char head[] = "dcprel-log 1";
    struct reader r = {
        .arena = arena, .access = access, .next_address = (uint64_t)1 << 40};
    const char *end = text + bytes;
    bool headed = false;

    while (text < end) {
        const char *stop = memchr(text, '\n', (size_t)(end - text));
        r.at = text;
        r.end = stop ? stop : end;
        r.line++;
        if (!headed)
            headed = eat_word(&r, head);
        if (!headed || !read_line(&r)) {
            *line = r.line;
            return r.nomem ? DCP_NOMEM : DCP_SYNTAX;
        }
        text = stop ? stop + 1 : end;
    }
    if (!headed) {
        *line = 1;
        return DCP_SYNTAX;
    }
    *out = r.log;
    return DCP_OK;
}
