/* SPDX-License-Identifier: Apache-2.0 */
/* The reading side of the trace: record after record, in bounded memory,
 * whatever the bytes are. Not for the library that is loaded into programs. */
#ifndef DCP_SRC_TRACE_READ_H
#define DCP_SRC_TRACE_READ_H

#include "src/status.h"
#include "src/trace.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct dcp_trace_reader;

/* One record; field names are those of trace.def: event.ALLOC.bytes. Fields
 * that the file does not have are 0. */
struct dcp_trace_event {
    enum dcp_trace_kind kind;
    uint64_t offset;     /* of the record in the file */
    uint64_t time_ns;
    const char *payload; /* NUL-terminated; valid until the next call */
    size_t payload_bytes;
    union {
        uint64_t field[DCP_TRACE_FIELDS];
#define EVENT(name, ...) struct dcp_trace_##name name;
#include "src/trace.def"
#undef EVENT
    };
};

/* Why reading stopped. */
enum dcp_trace_end {
    DCP_TRACE_OPEN,    /* it has not */
    DCP_TRACE_WHOLE,   /* the last record says that the program ended */
    DCP_TRACE_CUT,     /* killed or still running: the rest was not written */
    DCP_TRACE_PARTIAL, /* the file ends within a record */
    DCP_TRACE_DAMAGED, /* bytes that are no record */
    DCP_TRACE_FAILED,  /* the file could not be read, or memory is out */
};

/* Opens a trace file. On failure *out is untouched and `error` holds
 * "file:offset: message": DCP_IO, DCP_SYNTAX (not a trace), DCP_UNSUPPORTED
 * (another version or byte order) or DCP_NOMEM. */
enum dcp_status dcp_trace_reader_open(const char *path,
                                      struct dcp_trace_reader **out,
                                      char *error, size_t error_bytes);

/* Closes; accepts NULL. */
void dcp_trace_reader_close(struct dcp_trace_reader *reader);

/* The next record of a known kind. False at the end (dcp_trace_reader_end). */
bool dcp_trace_reader_next(struct dcp_trace_reader *reader,
                           struct dcp_trace_event *event);

/* Goes to a record by its offset; 0 is the first record. */
void dcp_trace_reader_seek(struct dcp_trace_reader *reader, uint64_t offset);

/* From now on only records of these kinds (bits 1 << kind; 0: all) are given
 * out and looked into. For reading again what was read whole before. */
void dcp_trace_reader_select(struct dcp_trace_reader *reader, uint64_t kinds);

/* Why the last dcp_trace_reader_next returned false. */
enum dcp_trace_end dcp_trace_reader_end(const struct dcp_trace_reader *reader);

/* That as a message, "file:offset: ..."; "" for DCP_TRACE_OPEN and _WHOLE.
 * Lives as long as the reader. */
const char *dcp_trace_reader_message(const struct dcp_trace_reader *reader);

/* The head of the file, its path, its size when it was opened, and how far
 * reading has come. */
const struct dcp_trace_head *
dcp_trace_reader_head(const struct dcp_trace_reader *reader);
const char *dcp_trace_reader_path(const struct dcp_trace_reader *reader);
uint64_t dcp_trace_reader_size(const struct dcp_trace_reader *reader);
uint64_t dcp_trace_reader_offset(const struct dcp_trace_reader *reader);

/* The process that still writes the file, 0: none is known. */
long dcp_trace_reader_writer(const struct dcp_trace_reader *reader);

/* Name of a kind, as in trace.def. */
const char *dcp_trace_kind_text(enum dcp_trace_kind kind);

#endif
