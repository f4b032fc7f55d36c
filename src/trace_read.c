/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "src/trace_read.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CHUNK_BYTES = 1 << 20, KINDS = 64, ABSENT = 255, MESSAGE_BYTES = 512 };

/* What a kind of the file is to us. */
struct kind_map {
    uint8_t kind;                    /* ABSENT: we do not know it */
    uint8_t count;                   /* fields */
    uint8_t field[DCP_TRACE_FIELDS]; /* our index, or ABSENT */
};

struct dcp_trace_reader {
    int fd;
    char *path;
    uint64_t size, offset;
    uint8_t *buffer; /* bytes [from, from + filled) of the file, then a NUL */
    size_t room, filled;
    uint64_t from;
    char *text; /* payload that has no room for its NUL in the buffer */
    bool ended; /* the last record read was an END */
    enum dcp_trace_end end;
    uint64_t selected; /* bits of our kinds, 0: all */
    unsigned kinds;
    struct kind_map map[KINDS];
    struct dcp_trace_head head;
    char message[MESSAGE_BYTES];
};

static const struct {
    const char *name, *fields;
} own[] = {
#define EVENT(name, ...) {#name, #__VA_ARGS__},
#include "src/trace.def"
#undef EVENT
};

_Static_assert((int)DCP_TRACE_KIND_COUNT <= (int)KINDS, "a mask holds all");

const char *
dcp_trace_kind_text(enum dcp_trace_kind kind)
{
    return (unsigned)kind < DCP_TRACE_KIND_COUNT ? own[kind].name : "?";
}

/* --- the table of kinds -------------------------------------------------- */

/* The next word of a line, separated by blanks and commas; NULL at the end. */
static const char *
next_word(const char **at, const char *end, size_t *length)
{
    const char *p = *at;

    while (p < end && (*p == ' ' || *p == ','))
        p++;
    const char *word = p;
    while (p < end && *p != ' ' && *p != ',')
        p++;
    *at = p;
    *length = (size_t)(p - word);
    return p > word ? word : NULL;
}

static uint8_t
find_field(const char *fields, const char *name, size_t length)
{
    const char *at = fields, *end = fields + strlen(fields), *word;
    uint8_t index = 0;
    size_t n;

    for (; (word = next_word(&at, end, &n)); index++)
        if (n == length && !memcmp(word, name, n))
            return index;
    return ABSENT;
}

static bool
map_kind(struct kind_map *map, const char *line, const char *end)
{
    size_t length;
    const char *word = next_word(&line, end, &length);

    if (!word)
        return false;
    map->kind = ABSENT;
    for (unsigned k = 0; k < DCP_TRACE_KIND_COUNT; k++)
        if (strlen(own[k].name) == length && !memcmp(own[k].name, word, length))
            map->kind = (uint8_t)k;
    while ((word = next_word(&line, end, &length))) {
        if (map->count == DCP_TRACE_FIELDS)
            return false;
        map->field[map->count++] =
            map->kind == ABSENT ? ABSENT
                                : find_field(own[map->kind].fields, word,
                                             length);
    }
    return true;
}

static bool
map_kinds(struct dcp_trace_reader *reader, const char *text, size_t bytes)
{
    const char *end = text + bytes;

    while (text < end) {
        const char *line = text;
        text = memchr(text, '\n', (size_t)(end - text));
        if (!text || reader->kinds == KINDS ||
            !map_kind(&reader->map[reader->kinds++], line, text))
            return false;
        text++;
    }
    return reader->kinds > 0;
}

/* --- open and close ------------------------------------------------------ */

static bool
read_at(int fd, void *to, size_t bytes, uint64_t from)
{
    while (bytes) {
        ssize_t n = pread(fd, to, bytes, (off_t)from);
        if (n < 0 && errno == EINTR)
            continue;
        if (n == 0)
            errno = EIO; /* it shrank while we read */
        if (n <= 0)
            return false;
        to = (char *)to + n;
        from += (uint64_t)n;
        bytes -= (size_t)n;
    }
    return true;
}

/* Reads the head. NULL when it is good, else what is wrong; DCP_OK in *status
 * only for the former. */
static const char *
read_head(struct dcp_trace_reader *reader, enum dcp_status *status)
{
    char block[DCP_TRACE_HEAD];
    struct dcp_trace_head *head = &reader->head;

    *status = DCP_SYNTAX;
    if (reader->size == 0)
        return "empty file, not a trace";
    size_t bytes = reader->size < sizeof block ? reader->size : sizeof block;
    if (!read_at(reader->fd, block, bytes, 0)) {
        *status = DCP_IO;
        return strerror(errno);
    }
    if (bytes < 8 || memcmp(block, DCP_TRACE_MAGIC, 8))
        return "not a trace";
    if (bytes < sizeof block)
        return "cut off within the head";
    memcpy(head, block, sizeof *head);
    if (head->version != DCP_TRACE_VERSION) {
        *status = DCP_UNSUPPORTED;
        return head->version == __builtin_bswap32(DCP_TRACE_VERSION)
                   ? "written on a machine of the other byte order"
                   : "written by another version";
    }
    if (head->schema_bytes > sizeof block - sizeof *head ||
        !map_kinds(reader, block + sizeof *head, head->schema_bytes))
        return "damaged table of kinds";
    *status = DCP_OK;
    return NULL;
}

static const char *
open_file(struct dcp_trace_reader *reader, const char *path,
          enum dcp_status *status)
{
    struct stat st;

    *status = DCP_IO;
    reader->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (reader->fd < 0 || fstat(reader->fd, &st))
        return strerror(errno);
    if (!S_ISREG(st.st_mode))
        return "not a regular file";
    reader->size = (uint64_t)st.st_size;
    return read_head(reader, status);
}

enum dcp_status
dcp_trace_reader_open(const char *path, struct dcp_trace_reader **out,
                      char *error, size_t error_bytes)
{
    enum dcp_status status = DCP_NOMEM;
    struct dcp_trace_reader *reader = calloc(1, sizeof *reader);
    const char *wrong = "out of memory";

    if (reader) {
        reader->fd = -1;
        reader->path = strdup(path);
        if (reader->path)
            wrong = open_file(reader, path, &status);
    }
    if (wrong) {
        snprintf(error, error_bytes, "%s:0: %s", path, wrong);
        dcp_trace_reader_close(reader);
        return status;
    }
    dcp_trace_reader_seek(reader, 0);
    *out = reader;
    return DCP_OK;
}

void
dcp_trace_reader_close(struct dcp_trace_reader *reader)
{
    if (!reader)
        return;
    if (reader->fd >= 0)
        close(reader->fd);
    free(reader->buffer);
    free(reader->text);
    free(reader->path);
    free(reader);
}

/* --- records ------------------------------------------------------------- */

static bool
stop(struct dcp_trace_reader *reader, enum dcp_trace_end end, const char *text)
{
    reader->end = end;
    if (end == DCP_TRACE_WHOLE)
        reader->message[0] = '\0';
    else
        snprintf(reader->message, sizeof reader->message, "%s:%llu: %s",
                 reader->path, (unsigned long long)reader->offset, text);
    return false;
}

/* `bytes` bytes from the current offset, which the file has, or NULL. */
static uint8_t *
load(struct dcp_trace_reader *reader, size_t bytes)
{
    uint64_t at = reader->offset;

    if (at >= reader->from && at + bytes <= reader->from + reader->filled)
        return reader->buffer + (at - reader->from);
    size_t want = bytes > CHUNK_BYTES ? bytes : CHUNK_BYTES;
    if (want > reader->size - at)
        want = (size_t)(reader->size - at);
    if (want > reader->room) {
        free(reader->buffer);
        reader->room = reader->filled = 0;
        reader->buffer = malloc(want);
        if (!reader->buffer)
            return NULL;
        reader->room = want;
    }
    reader->filled = 0;
    if (!read_at(reader->fd, reader->buffer, want, at))
        return NULL;
    reader->from = at;
    reader->filled = want;
    return reader->buffer;
}

/* Reads fields up to `end`; NULL when they do not fit there. */
static const uint8_t *
get_fields(const uint8_t *at, const uint8_t *end, unsigned count,
           uint64_t *fields)
{
    for (unsigned i = 0; i < count; i++) {
        fields[i] = 0;
        for (unsigned shift = 0;; shift += 7) {
            if (at == end || shift > 63)
                return NULL;
            fields[i] |= (uint64_t)(*at & 0x7f) << shift;
            if (!(*at++ & 0x80))
                break;
        }
    }
    return at;
}

/* A NUL-terminated copy of the payload: the next record follows it at once in
 * the buffer. */
static const char *
copy_payload(struct dcp_trace_reader *reader, const uint8_t *from, size_t bytes)
{
    if (bytes == 0)
        return "";
    char *text = realloc(reader->text, bytes + 1);

    if (!text)
        return NULL;
    reader->text = text;
    memcpy(text, from, bytes);
    text[bytes] = '\0';
    return text;
}

/* Decodes the record at `at`, whose bytes are all there. False: no record. */
static bool
decode(struct dcp_trace_reader *reader, const uint8_t *at,
       struct dcp_trace_event *event)
{
    struct dcp_trace_record record;
    uint64_t fields[DCP_TRACE_FIELDS];

    memcpy(&record, at, sizeof record);
    if (record.kind >= reader->kinds || record.count > DCP_TRACE_FIELDS ||
        record.payload > record.bytes - sizeof record ||
        record.check != dcp_trace_check(at + 8, record.bytes - 8))
        return false;
    const uint8_t *end = at + record.bytes - record.payload;
    if (get_fields(at + sizeof record, end, record.count, fields) != end)
        return false;
    const struct kind_map *map = &reader->map[record.kind];
    event->kind = (enum dcp_trace_kind)map->kind;
    event->offset = reader->offset;
    event->time_ns = record.time_ns;
    memset(event->field, 0, sizeof event->field);
    for (unsigned i = 0; i < record.count && i < map->count; i++)
        if (map->field[i] != ABSENT)
            event->field[map->field[i]] = fields[i];
    event->payload = (const char *)end;
    event->payload_bytes = record.payload;
    return true;
}

/* Whether the record is one that was asked for. */
static bool
selected(const struct dcp_trace_reader *reader, const uint8_t *at)
{
    struct dcp_trace_record record;

    memcpy(&record, at, sizeof record);
    if (reader->selected == 0 || record.kind >= reader->kinds)
        return true;
    unsigned kind = reader->map[record.kind].kind;
    return kind != ABSENT && reader->selected >> kind & 1;
}

/* The length of the record at the offset, which the file has in full. False
 * when there is none, with the reason kept. */
static bool
find_length(struct dcp_trace_reader *reader, uint32_t *bytes)
{
    uint64_t left =
        reader->offset < reader->size ? reader->size - reader->offset : 0;
    const uint8_t *at = left < sizeof *bytes ? NULL : load(reader, 4);

    *bytes = 0;
    if (left >= sizeof *bytes && !at)
        return stop(reader, DCP_TRACE_FAILED, "cannot be read");
    if (at)
        memcpy(bytes, at, sizeof *bytes);
    if (*bytes == 0 && reader->ended)
        return stop(reader, DCP_TRACE_WHOLE, "");
    if (*bytes == 0)
        return stop(reader, DCP_TRACE_CUT, "the trace ends here, without an "
                    "end mark (the program was killed, or still runs)");
    if (*bytes < sizeof(struct dcp_trace_record))
        return stop(reader, DCP_TRACE_DAMAGED, "damaged record; what comes "
                    "before it was read");
    if (*bytes > left)
        return stop(reader, DCP_TRACE_PARTIAL, "the file ends within this "
                    "record; what comes before it was read");
    return true;
}

/* Reads one record of any kind; *known tells whether it has a meaning. */
static bool
step(struct dcp_trace_reader *reader, struct dcp_trace_event *event,
     bool *known)
{
    uint32_t bytes;

    if (!find_length(reader, &bytes))
        return false;
    const uint8_t *at = load(reader, bytes);
    if (!at)
        return stop(reader, DCP_TRACE_FAILED, "cannot be read");
    *known = selected(reader, at);
    if (*known && !decode(reader, at, event))
        return stop(reader, DCP_TRACE_DAMAGED, "damaged record; what comes "
                    "before it was read");
    reader->ended = *known && event->kind == DCP_TRACE_END;
    *known = *known && (unsigned)event->kind != ABSENT;
    if (*known) {
        event->payload = copy_payload(reader, (const uint8_t *)event->payload,
                                      event->payload_bytes);
        if (!event->payload)
            return stop(reader, DCP_TRACE_FAILED, "out of memory");
    }
    reader->offset += ((uint64_t)bytes + 7) & ~(uint64_t)7;
    return true;
}

bool
dcp_trace_reader_next(struct dcp_trace_reader *reader,
                      struct dcp_trace_event *event)
{
    bool known = false;

    if (reader->end != DCP_TRACE_OPEN)
        return false;
    while (step(reader, event, &known))
        if (known)
            return true;
    return false;
}

void
dcp_trace_reader_seek(struct dcp_trace_reader *reader, uint64_t offset)
{
    reader->offset = offset ? offset : DCP_TRACE_HEAD;
    reader->end = DCP_TRACE_OPEN;
    reader->ended = false;
    reader->message[0] = '\0';
}

void
dcp_trace_reader_select(struct dcp_trace_reader *reader, uint64_t kinds)
{
    reader->selected = kinds;
}

/* --- what is known of it ------------------------------------------------- */

enum dcp_trace_end
dcp_trace_reader_end(const struct dcp_trace_reader *reader)
{
    return reader->end;
}

const char *
dcp_trace_reader_message(const struct dcp_trace_reader *reader)
{
    return reader->message;
}

const struct dcp_trace_head *
dcp_trace_reader_head(const struct dcp_trace_reader *reader)
{
    return &reader->head;
}

const char *
dcp_trace_reader_path(const struct dcp_trace_reader *reader)
{
    return reader->path;
}

uint64_t
dcp_trace_reader_size(const struct dcp_trace_reader *reader)
{
    return reader->size;
}

uint64_t
dcp_trace_reader_offset(const struct dcp_trace_reader *reader)
{
    return reader->offset;
}

long
dcp_trace_reader_writer(const struct dcp_trace_reader *reader)
{
    struct flock lock = {.l_type = F_RDLCK, .l_whence = SEEK_SET};

    if (fcntl(reader->fd, F_GETLK, &lock) || lock.l_type == F_UNLCK)
        return 0;
    return (long)lock.l_pid;
}
