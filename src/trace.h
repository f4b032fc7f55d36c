/* SPDX-License-Identifier: Apache-2.0 */
/* The trace: one append-only file a rank, DIR/rank<N>.dcp; a second process
 * of the same rank, while the first lives, writes rank<N>.<pid>.dcp. Files of
 * earlier runs are replaced. Written through a shared mapping of space that
 * was allocated beforehand, so that a killed process leaves all that it had
 * appended, and a full disk is an error code and never a signal.
 *
 * The file: a head of DCP_TRACE_HEAD bytes (struct dcp_trace_head and the
 * table of kinds as text, a line "NAME field field..." each), then records
 * back to back. A record is struct dcp_trace_record, its fields as LEB128
 * integers, its payload, and zeros up to a multiple of 8 bytes. `bytes` is
 * stored last; a record of 0 bytes is the end. Byte order is the machine's. */
#ifndef DCP_SRC_TRACE_H
#define DCP_SRC_TRACE_H

#include "src/status.h"

#include <stddef.h>
#include <stdint.h>

struct dcp_trace; /* writer */

/* Kinds of event; one row each in trace.def: name, then typed fields. */
enum dcp_trace_kind {
#define EVENT(name, ...) DCP_TRACE_##name,
#include "src/trace.def"
#undef EVENT
    DCP_TRACE_KIND_COUNT
};

/* The fields of each kind, in the order of its row: struct dcp_trace_ALLOC. */
#define EVENT(name, ...) struct dcp_trace_##name { uint64_t __VA_ARGS__; };
#include "src/trace.def"
#undef EVENT

/* What the two sides agree on. */
#define DCP_TRACE_MAGIC "dcptrace"
enum {
    DCP_TRACE_VERSION = 1,
    DCP_TRACE_HEAD = 4096,
    DCP_TRACE_FIELDS = 16,           /* at most, of one record */
    DCP_TRACE_PAYLOAD = 256 << 20,   /* bytes at most, of one record */
};

struct dcp_trace_head {
    char magic[8];
    uint32_t version, schema_bytes; /* the table of kinds follows the head */
    uint32_t rank, world, pid, reserved;
    uint64_t start_ns, wall_ns;     /* the same moment on two clocks */
};

struct dcp_trace_record {
    uint32_t bytes;   /* of the whole record without the zeros */
    uint32_t check;   /* dcp_trace_check of all after this word */
    uint64_t time_ns;
    uint16_t kind, count;
    uint32_t payload; /* bytes */
};

/* A hash of `bytes` bytes at `at`, which is aligned to 8; a shorter last word
 * counts as filled up with zeros. */
static inline uint32_t
dcp_trace_check(const void *at, size_t bytes)
{
    uint64_t hash = 0x243f6a8885a308d3u ^ bytes, word;

    for (size_t i = 0; i < bytes; i += 8) {
        word = 0;
        __builtin_memcpy(&word, (const char *)at + i,
                         bytes - i < 8 ? bytes - i : 8);
        hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
        hash ^= hash >> 29;
    }
    return (uint32_t)(hash >> 32 ^ hash);
}

/* Creates the directory (and its parents) if needed, and the file. On failure
 * returns NULL after one log line; every other call accepts NULL and does
 * nothing. Call once, before other threads use the trace. */
struct dcp_trace *dcp_trace_open(const char *dir, int rank, int world);

/* Appends one record: `kind`, the current time, then `count` integer fields
 * in the order of the row (those left out read as 0), then `bytes` bytes of
 * payload (names, IR text). Any thread; one short lock, no malloc, no system
 * call but for new space (1 MiB) now and then. When the disk is full: one log
 * line, and the trace ends there. Not for signal handlers. */
void dcp_trace_put(struct dcp_trace *trace, enum dcp_trace_kind kind,
                   const uint64_t *fields, unsigned count,
                   const void *payload, size_t bytes);

/* The same with named fields:
 *     dcp_trace_event(trace, FREE, NULL, 0, .block = id, .stream = stream); */
#define dcp_trace_event(trace, name, payload, payload_bytes, ...)              \
    do {                                                                       \
        if (trace)                                                             \
            dcp_trace_put(trace, DCP_TRACE_##name,                             \
                          (const uint64_t *)&(struct dcp_trace_##name){        \
                              __VA_ARGS__},                                    \
                          sizeof(struct dcp_trace_##name) / sizeof(uint64_t),  \
                          payload, payload_bytes);                             \
    } while (0)

/* The file's path, for messages; "" for NULL. Lives as long as the trace. */
const char *dcp_trace_path(const struct dcp_trace *trace);

/* For a fork child: from now on nothing is written through this trace. Takes
 * no lock. (A child made without it writes nothing either: the trace's memory
 * is wiped on fork. The pointer stays good for calls that do nothing.) */
void dcp_trace_abandon(struct dcp_trace *trace);

/* Cuts the file to what was appended. Later puts do nothing; the memory stays,
 * so that threads which still run may call them. The process may also simply
 * end. */
void dcp_trace_close(struct dcp_trace *trace);

#endif
