/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "capture/log.h"

#include "src/arena.h"

#include "capture/kernel.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

static const char *const op_names[] = {
    [DCP_CALL_LAUNCH] = "launch", [DCP_CALL_COPY] = "copy",
    [DCP_CALL_FILL] = "fill",     [DCP_CALL_RECORD] = "record",
    [DCP_CALL_DEPEND] = "depend", [DCP_CALL_ALLOC] = "alloc",
    [DCP_CALL_FREE] = "free",     [DCP_CALL_WAIT] = "wait",
    [DCP_CALL_OPAQUE] = "opaque",
};
static const char *const place_names[] = {
    [DCP_PLACE_DEVICE] = "device",
    [DCP_PLACE_PINNED] = "pinned",
    [DCP_PLACE_PAGEABLE] = "pageable",
};

const char *
dcp_call_text(enum dcp_call_op op)
{
    return op <= DCP_CALL_OPAQUE ? op_names[op] : "?";
}

const char *
dcp_place_text(enum dcp_place place)
{
    return place <= DCP_PLACE_PAGEABLE ? place_names[place] : "?";
}

/* A map from handles (or buffer numbers) to small numbers, by first use. */
struct numbering {
    uint64_t *keys;
    uint32_t *values; /* number + 1; 0: free place */
    uint32_t count, places;
};

struct printer {
    const struct dcp_log *log;
    const struct dcp_access_table *access;
    struct dcp_arena arena;
    struct numbering streams, events;
    struct numbering kernels;
    uint32_t *buffers;      /* old number -> new number + 1 */
    uint32_t access_kernel; /* whose line is being written */
    int fd;
    bool failed;
    size_t used;
    char text[4096];
};

static enum dcp_status
numbering_grow(struct numbering *n, struct dcp_arena *arena)
{
    struct numbering old = *n;

    n->places = old.places ? old.places * 2 : 64;
    n->keys = dcp_arena_alloc(arena, n->places * sizeof *n->keys);
    n->values = dcp_arena_alloc(arena, n->places * sizeof *n->values);
    if (!n->keys || !n->values) {
        *n = old;
        return DCP_NOMEM;
    }
    for (uint32_t i = 0; i < old.places; i++) {
        if (!old.values[i])
            continue;
        uint32_t at = (uint32_t)(old.keys[i] * 0x9e3779b97f4a7c15u >> 32);
        while (n->values[at & (n->places - 1)])
            at++;
        n->keys[at & (n->places - 1)] = old.keys[i];
        n->values[at & (n->places - 1)] = old.values[i];
    }
    return DCP_OK;
}

static enum dcp_status
number_of(struct numbering *n, struct dcp_arena *arena, uint64_t key,
          uint32_t *out)
{
    if (n->count * 2 >= n->places && numbering_grow(n, arena))
        return DCP_NOMEM;
    uint32_t at = (uint32_t)(key * 0x9e3779b97f4a7c15u >> 32);
    for (;; at++) {
        uint32_t place = at & (n->places - 1);
        if (!n->values[place]) {
            n->keys[place] = key;
            n->values[place] = ++n->count;
        } else if (n->keys[place] != key) {
            continue;
        }
        *out = n->values[place] - 1;
        return DCP_OK;
    }
}

static void
flush(struct printer *p)
{
    size_t done = 0;

    while (done < p->used && !p->failed) {
        ssize_t n = write(p->fd, p->text + done, p->used - done);
        if (n > 0)
            done += (size_t)n;
        else if (n == 0 || errno != EINTR)
            p->failed = true;
    }
    p->used = 0;
}

static void
put_char(struct printer *p, char c)
{
    if (p->used == sizeof p->text)
        flush(p);
    p->text[p->used++] = c;
}

static void
put(struct printer *p, const char *text)
{
    while (*text)
        put_char(p, *text++);
}

static void
put_base(struct printer *p, uint64_t value, unsigned base)
{
    char digits[20];
    unsigned n = 0;

    do {
        digits[n++] = "0123456789abcdef"[value % base];
        value /= base;
    } while (value);
    while (n)
        put_char(p, digits[--n]);
}

static void
put_number(struct printer *p, const char *before, uint64_t value)
{
    put(p, before);
    put_base(p, value, 10);
}

static void
put_name(struct printer *p, const char *name)
{
    for (const char *c = name ? name : "?"; *c; c++)
        put_char(p, (unsigned char)*c < ' ' || *c == 0x7f ? '?' : *c);
}

static void
put_kernel(struct printer *p, const struct dcp_kernel *kernel)
{
    put_number(p, "kernel ", kernel->id);
    if (kernel->known) {
        put(p, " params");
        for (uint32_t i = 0; i < kernel->param_count; i++) {
            put_number(p, " ", kernel->params[i].offset);
            put_number(p, ":", kernel->params[i].bytes);
        }
    } else {
        put(p, " unknown");
    }
    put(p, " name ");
    put_name(p, kernel->name);
    put_char(p, '\n');
}

static void
put_dims(struct printer *p, const char *before, const uint32_t dims[3])
{
    put_number(p, before, dims[0]);
    if (dims[1] != 1 || dims[2] != 1)
        put_number(p, "x", dims[1]);
    if (dims[2] != 1)
        put_number(p, "x", dims[2]);
}

static void
put_refs(struct printer *p, const struct dcp_call *call)
{
    for (uint32_t i = 0; i < call->ref_count; i++) {
        const struct dcp_ref *ref = &call->refs[i];
        put_number(p, " ", ref->slot);
        put_number(p, "@", p->buffers[ref->buffer] - 1);
        if (ref->offset)
            put_number(p, "+", ref->offset);
    }
}

static void
put_launch(struct printer *p, const struct dcp_call *call, unsigned flags)
{
    put_number(p, " k", call->launch.kernel->id);
    put_dims(p, " ", call->launch.grid);
    put_dims(p, "/", call->launch.block);
    if (call->launch.shared)
        put_number(p, " m", call->launch.shared);
    if (call->launch.attrs) {
        put(p, " a");
        put_base(p, call->launch.attrs, 16);
    }
    if (call->sync)
        put(p, " sync");
    put_refs(p, call);
    if (!(flags & DCP_LOG_PARAMS) || !call->launch.params)
        return;
    put(p, " =");
    for (uint32_t i = 0; i < call->launch.bytes; i++) {
        put_char(p, "0123456789abcdef"[call->launch.params[i] >> 4]);
        put_char(p, "0123456789abcdef"[call->launch.params[i] & 15]);
    }
}

static void
put_fill(struct printer *p, const struct dcp_call *call)
{
    put_number(p, " ", call->fill.width);
    put_number(p, "x", call->fill.height);
    put_number(p, "/", call->fill.element);
    put_number(p, " v", call->fill.value);
    if (call->fill.pitch)
        put_number(p, " p", call->fill.pitch);
}

static enum dcp_status
put_event(struct printer *p, const struct dcp_call *call)
{
    uint32_t event;

    if (number_of(&p->events, &p->arena, call->event.event, &event))
        return DCP_NOMEM;
    put_number(p, " e", event);
    put_number(p, " f", call->event.flags);
    return DCP_OK;
}

static enum dcp_status
put_call(struct printer *p, const struct dcp_call *call, unsigned flags)
{
    enum dcp_status status = DCP_OK;
    uint32_t stream;

    put(p, dcp_call_text(call->op));
    if (call->stream == 0)
        put(p, " -");
    else if (number_of(&p->streams, &p->arena, call->stream, &stream))
        return DCP_NOMEM;
    else
        put_number(p, " ", stream);
    put_number(p, ".", call->thread);
    switch ((enum dcp_call_op)call->op) {
    case DCP_CALL_LAUNCH:
        put_launch(p, call, flags);
        put_char(p, '\n');
        return DCP_OK;
    case DCP_CALL_COPY:
        put_number(p, " ", call->copy.bytes);
        put_char(p, ' ');
        put(p, dcp_place_text(call->copy.src_place));
        put_char(p, '>');
        put(p, dcp_place_text(call->copy.dst_place));
        break;
    case DCP_CALL_FILL:
        put_fill(p, call);
        break;
    case DCP_CALL_RECORD:
    case DCP_CALL_DEPEND:
        status = put_event(p, call);
        break;
    case DCP_CALL_ALLOC:
    case DCP_CALL_FREE:
        put_number(p, " b", p->buffers[call->memory.buffer] - 1);
        break;
    case DCP_CALL_WAIT:
    case DCP_CALL_OPAQUE:
        break;
    }
    if (call->sync)
        put(p, " sync");
    if (call->op != DCP_CALL_ALLOC && call->op != DCP_CALL_FREE)
        put_refs(p, call);
    put_char(p, '\n');
    return status;
}

static bool
is_numbered(const struct numbering *n, uint64_t key)
{
    uint32_t at = (uint32_t)(key * 0x9e3779b97f4a7c15u >> 32);

    for (; n->places && n->values[at & (n->places - 1)]; at++)
        if (n->keys[at & (n->places - 1)] == key)
            return true;
    return false;
}

static void
put_access(void *user, uint32_t kernel, uint32_t slot, uint8_t access)
{
    struct printer *p = user;

    if (!is_numbered(&p->kernels, kernel))
        return;
    if (p->access_kernel != kernel) {
        if (p->access_kernel)
            put_char(p, '\n');
        put_number(p, "access ", kernel);
    }
    p->access_kernel = kernel;
    put_number(p, " ", slot);
    put(p, access == DCP_READ ? "=r" : access == DCP_WRITE ? "=w" : "=rw");
}

static bool
has_buffer(const struct dcp_call *call)
{
    return call->op == DCP_CALL_ALLOC || call->op == DCP_CALL_FREE;
}

/* Kernels in order of first launch in the range, then buffers in the log's
 * own order. */
static enum dcp_status
put_tables(struct printer *p, uint32_t first, uint32_t last)
{
    const struct dcp_log *log = p->log;
    struct numbering *kernels = &p->kernels;
    uint32_t seen, next = 0;

    put(p, "dcprel-log 1\n");
    for (uint32_t i = first; i < last; i++) {
        const struct dcp_call *call = &log->calls[i];
        for (uint32_t r = 0; r < call->ref_count; r++)
            p->buffers[call->refs[r].buffer] = 1;
        if (has_buffer(call))
            p->buffers[call->memory.buffer] = 1;
        if (call->op != DCP_CALL_LAUNCH)
            continue;
        uint32_t known = kernels->count;
        if (number_of(kernels, &p->arena, call->launch.kernel->id, &seen))
            return DCP_NOMEM;
        if (kernels->count != known)
            put_kernel(p, call->launch.kernel);
    }
    if (p->access && dcp_access_each(p->access, put_access, p))
        return DCP_NOMEM;
    if (p->access_kernel)
        put_char(p, '\n');
    for (uint32_t i = 0; i < log->buffer_count; i++) {
        if (!p->buffers[i])
            continue;
        put_number(p, "buffer ", next);
        put_number(p, " ", log->buffers[i].bytes);
        put_char(p, '\n');
        p->buffers[i] = ++next;
    }
    return DCP_OK;
}

enum dcp_status
dcp_log_print(const struct dcp_log *log, uint32_t first, uint32_t last,
              unsigned flags, const struct dcp_access_table *access, int fd)
{
    struct printer p = {.log = log, .access = access, .fd = fd};
    enum dcp_status status = DCP_NOMEM;

    if (last > log->call_count)
        last = log->call_count;
    p.buffers =
        dcp_arena_alloc(&p.arena, (log->buffer_count + 1) * sizeof *p.buffers);
    if (p.buffers)
        status = put_tables(&p, first, last);
    for (uint32_t i = first; i < last && !status; i++)
        status = put_call(&p, &log->calls[i], flags);
    flush(&p);
    dcp_arena_release(&p.arena);
    return status ? status : p.failed ? DCP_IO : DCP_OK;
}
