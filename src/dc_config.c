/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "src/dc_config.h"

#include "src/arena.h"
#include "src/dc_config_private.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_BYTES = 1 << 20 };

/* --- faults -------------------------------------------------------------- */

void
dcp_config_fault(struct dcp_config_reader *r, enum dcp_status status,
                 unsigned line, const char *path, const char *format, ...)
{
    va_list ap;
    int used;

    if (r->status != DCP_OK)
        return;
    r->status = status;
    if (r->error_bytes == 0)
        return;
    if (line)
        used = snprintf(r->error, r->error_bytes, "%s:%u: ", r->name, line);
    else
        used = snprintf(r->error, r->error_bytes, "%s: ", r->name);
    if (path && used >= 0 && (size_t)used < r->error_bytes)
        used += snprintf(r->error + used, r->error_bytes - (size_t)used,
                         "%s: ", path);
    if (used < 0 || (size_t)used >= r->error_bytes)
        return;
    va_start(ap, format);
    vsnprintf(r->error + used, r->error_bytes - (size_t)used, format, ap);
    va_end(ap);
    for (char *c = r->error; *c; c++)
        if ((unsigned char)*c < ' ')
            *c = ' ';
}

/* --- members ------------------------------------------------------------- */

static void
fault_unknown(struct dcp_config_reader *r, const struct dcp_member *member)
{
    const char *near = dcp_config_nearest(member->path);

    if (near)
        dcp_config_fault(r, DCP_INVALID, member->line, member->path,
                         "unknown key; did you mean %s?", near);
    else
        dcp_config_fault(r, DCP_INVALID, member->line, member->path,
                         "unknown key");
}

/* null, and "auto" where it is no word of the key. */
static bool
is_unset(const struct dcp_config_row *row, const struct dcp_member *member)
{
    static const char word[] = "\"auto\"";

    if (!strncmp(row->path, "dcprel.", 7))
        return false;
    return member->kind == 'n' ||
           (member->kind == '"' && member->value_bytes == sizeof word - 1 &&
            !memcmp(member->value, word, sizeof word - 1));
}

static bool
take_value(struct dcp_config_reader *r, int key,
           const struct dcp_member *member)
{
    const struct dcp_config_row *row = &dcp_config_rows[key];
    struct dcp_config_found found = {
        .path = member->path,
        .line = member->line,
        .key = key,
        .unset = is_unset(row, member),
        .value = member->value,
        .value_bytes = member->value_bytes,
    };

    if (!found.unset && !dcp_config_value(r, row, member))
        return false;
    if (!found.unset && r->out->lines[key] == 0)
        r->out->lines[key] = member->line;
    bool inside = row->kind == DCP_CONFIG_ANY && member->kind == '{';
    if (r->visit && !inside)
        r->visit(r->user, &found);
    return inside;
}

static bool
take_member(void *user, const struct dcp_member *member)
{
    struct dcp_config_reader *r = user;
    bool section;
    int key = dcp_config_find(member->path, &section);

    if (member->first_line) {
        dcp_config_fault(r, DCP_INVALID, member->line, member->path,
                         "duplicate key; it is already in line %u",
                         member->first_line);
        return false;
    }
    if (section && member->kind == '{' &&
        (key < 0 || dcp_config_rows[key].kind == DCP_CONFIG_ANY))
        return true;
    if (section && member->kind == 'n')
        return false;
    if (section) {
        dcp_config_fault(r, DCP_INVALID, member->line, member->path,
                         "wrong type: an object is wanted");
        return false;
    }
    if (key < 0) {
        fault_unknown(r, member);
        return false;
    }
    return take_value(r, key, member);
}

/* --- the text ------------------------------------------------------------ */

static bool
is_blank(const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if (!memchr(" \t\r\n", text[i], 4))
            return false;
    return true;
}

static void
read_text(struct dcp_config_reader *r, const char *text, size_t length)
{
    json_error_t error;
    unsigned line = 0;

    if (is_blank(text, length)) {
        dcp_config_fault(r, DCP_SYNTAX, 0, NULL,
                         "the configuration is empty; at least {} is wanted");
        return;
    }
    json_t *value = r->json->loadb(text, length, JSON_DECODE_ANY, &error);
    if (!value) {
        dcp_config_fault(r, DCP_SYNTAX,
                         error.line > 0 ? (unsigned)error.line : 1, NULL,
                         "malformed JSON: %s", error.text);
        return;
    }
    bool object = json_is_object(value);
    dcp_json_free(r->json, value);
    if (!object) {
        dcp_config_fault(r, DCP_INVALID, 1, NULL,
                         "wrong type: the configuration must be an object");
        return;
    }
    enum dcp_status status =
        dcp_config_scan(r->json, text, length, take_member, r, &line);
    if (status == DCP_RANGE)
        dcp_config_fault(r, status, line, NULL,
                         "too many keys in one object, or nested too deeply");
    else if (status != DCP_OK)
        dcp_config_fault(r, status, line, NULL, "%s", dcp_status_text(status));
    if (r->status == DCP_OK)
        dcp_config_check(r);
}

static struct dcp_config_reader
reader_start(const char *name, struct dcp_config *out, char *error,
             size_t error_bytes)
{
    struct dcp_config_reader r = {
        .name = name,
        .out = out,
        .error = error,
        .error_bytes = error_bytes,
    };
    const char *why = NULL;

    if (error_bytes)
        error[0] = '\0';
    dcp_config_default(out);
    r.json = dcp_json_open(&why);
    if (!r.json)
        dcp_config_fault(&r, DCP_IO, 0, NULL,
                         "jansson is needed to read it: %s", why);
    return r;
}

enum dcp_status
dcp_config_parse(const char *text, size_t length, const char *name,
                 struct dcp_config *out, char *error, size_t error_bytes,
                 dcp_config_visit *visit, void *user)
{
    struct dcp_config_reader r = reader_start(name, out, error, error_bytes);

    r.visit = visit;
    r.user = user;
    if (r.status == DCP_OK)
        read_text(&r, text, length);
    return r.status;
}

/* --- the file ------------------------------------------------------------ */

static const char *
kind_of_file(mode_t mode)
{
    return S_ISDIR(mode) ? "is a directory" : "is not a regular file";
}

/* Opens and checks; -1 after a fault. */
static int
file_open(struct dcp_config_reader *r, size_t *bytes)
{
    struct stat status;
    int fd = open(r->name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

    if (fd < 0 || fstat(fd, &status) != 0) {
        dcp_config_fault(r, DCP_IO, 0, NULL, "cannot be opened: %s",
                         strerror(errno));
    } else if (!S_ISREG(status.st_mode)) {
        dcp_config_fault(r, DCP_IO, 0, NULL, "%s, not a configuration file",
                         kind_of_file(status.st_mode));
    } else if (status.st_size > MAX_BYTES) {
        dcp_config_fault(r, DCP_RANGE, 0, NULL,
                         "too large for a configuration: %lld bytes, at most "
                         "%d are read",
                         (long long)status.st_size, MAX_BYTES);
    } else {
        *bytes = (size_t)status.st_size;
        return fd;
    }
    if (fd >= 0)
        close(fd);
    return -1;
}

/* Up to `room` bytes; -1 after a fault. */
static ssize_t
file_read(struct dcp_config_reader *r, int fd, char *text, size_t room)
{
    size_t have = 0;

    while (have < room) {
        ssize_t more = read(fd, text + have, room - have);

        if (more < 0 && errno == EINTR)
            continue;
        if (more < 0) {
            dcp_config_fault(r, DCP_IO, 0, NULL, "cannot be read: %s",
                             strerror(errno));
            return -1;
        }
        if (more == 0)
            break;
        have += (size_t)more;
    }
    return (ssize_t)have;
}

enum dcp_status
dcp_config_load_with(const char *path, struct dcp_config *out, char *error,
                     size_t error_bytes, dcp_config_visit *visit, void *user)
{
    struct dcp_config_reader r = reader_start(path, out, error, error_bytes);
    struct dcp_arena arena = {0};
    size_t bytes = 0;

    r.visit = visit;
    r.user = user;
    int fd = r.status == DCP_OK ? file_open(&r, &bytes) : -1;
    if (fd < 0)
        return r.status;
    char *text = dcp_arena_alloc(&arena, bytes + 1);
    ssize_t length = -1;
    if (text)
        length = file_read(&r, fd, text, bytes);
    else
        dcp_config_fault(&r, DCP_NOMEM, 0, NULL, "out of memory");
    close(fd);
    if (length >= 0)
        read_text(&r, text, (size_t)length);
    dcp_arena_release(&arena);
    return r.status;
}

enum dcp_status
dcp_config_load(const char *path, struct dcp_config *out, char *error,
                size_t error_bytes)
{
    return dcp_config_load_with(path, out, error, error_bytes, NULL, NULL);
}
