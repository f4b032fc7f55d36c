/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "src/dc_config_scan.h"

#include "src/arena.h"

#include <string.h>

enum { MAX_DEPTH = 64, MAX_KEYS = 1000, PATH_BYTES = 512 };

struct key {
    const char *text;
    size_t length;
    unsigned line;
};

struct scan {
    const struct dcp_json *json;
    const char *at, *end;
    unsigned line, depth;
    dcp_member_sink *sink;
    void *user;
    enum dcp_status status;
    struct dcp_arena arena;
    struct key *keys; /* of the objects that are open, outermost first */
    size_t used;
    char path[PATH_BYTES];
    size_t path_length;
};

static void
skip_blanks(struct scan *s)
{
    for (; s->at < s->end; s->at++) {
        if (*s->at == '\n')
            s->line++;
        else if (*s->at != ' ' && *s->at != '\t' && *s->at != '\r')
            return;
    }
}

/* The next character that is not blank, 0 at the end. */
static char
next(struct scan *s)
{
    skip_blanks(s);
    return s->at < s->end ? *s->at : 0;
}

static void
skip_string(struct scan *s)
{
    for (s->at++; s->at < s->end && *s->at != '"'; s->at++)
        if (*s->at == '\\')
            s->at++;
    s->at = s->at < s->end ? s->at + 1 : s->end;
}

/* To the end of a value. Depth needs no stack: the text is well-formed. */
static void
skip_value(struct scan *s)
{
    unsigned depth = 0;

    do {
        char c = next(s);

        if (c == 0)
            return;
        if (c == '"') {
            skip_string(s);
        } else if (c == '{' || c == '[') {
            depth++;
            s->at++;
        } else if (c == '}' || c == ']') {
            depth--;
            s->at++;
        } else if (c == ',' || c == ':') {
            s->at++;
        } else {
            while (s->at < s->end && !memchr(" \t\r\n,:]}", *s->at, 8))
                s->at++;
        }
    } while (depth > 0);
}

/* A key without its quotes and escapes; NULL when memory is out. */
static const char *
key_text(struct scan *s, const char *from, size_t *length)
{
    size_t bytes = (size_t)(s->at - from);

    *length = bytes - 2;
    if (!memchr(from, '\\', bytes))
        return dcp_arena_copy(&s->arena, from + 1, *length);
    json_t *value = s->json->loadb(from, bytes, JSON_DECODE_ANY, NULL);
    if (!value)
        return NULL;
    *length = s->json->string_length(value);
    const char *text =
        dcp_arena_copy(&s->arena, s->json->string_value(value), *length);
    dcp_json_free(s->json, value);
    return text;
}

static unsigned
line_of_same(const struct key *keys, size_t count, const struct key *key)
{
    for (size_t i = 0; i < count; i++)
        if (keys[i].length == key->length &&
            !memcmp(keys[i].text, key->text, key->length))
            return keys[i].line;
    return 0;
}

/* Appends a key to the path; what does not fit is left out. Control characters
 * would tear the message's line apart. */
static void
path_push(struct scan *s, const struct key *key)
{
    size_t at = s->path_length;

    if (at && at < PATH_BYTES - 1)
        s->path[at++] = '.';
    for (size_t i = 0; i < key->length && at < PATH_BYTES - 1; i++)
        s->path[at++] = (unsigned char)key->text[i] < ' ' ? '?' : key->text[i];
    s->path[at] = '\0';
    s->path_length = at;
}

static bool scan_object(struct scan *s);

/* One member, from its key to the end of its value. */
static bool
scan_member(struct scan *s, const struct key *keys, size_t count)
{
    const char *from = s->at;
    struct key *key = &s->keys[s->used++];
    size_t path_length = s->path_length;

    key->line = s->line;
    skip_string(s);
    key->text = key_text(s, from, &key->length);
    if (!key->text) {
        s->status = DCP_NOMEM;
        return false;
    }
    next(s);
    s->at++; /* the colon */
    char c = next(s);
    struct scan value = *s; /* a way back */
    skip_value(s);
    path_push(s, key);
    struct dcp_member member = {
        .path = s->path,
        .line = key->line,
        .kind = c == '-' || (c >= '0' && c <= '9') ? '0' : c,
        .value = value.at,
        .value_bytes = (size_t)(s->at - value.at),
        .first_line = line_of_same(keys, count, key),
    };
    if (s->sink(s->user, &member) && c == '{') {
        s->at = value.at;
        s->line = value.line;
        if (!scan_object(s))
            return false;
    }
    s->path_length = path_length;
    s->path[path_length] = '\0';
    return true;
}

static bool
scan_object(struct scan *s)
{
    size_t base = s->used;

    if (s->depth++ == MAX_DEPTH)
        s->status = DCP_RANGE;
    for (s->at++; s->status == DCP_OK;) {
        char c = next(s);

        if (c == ',')
            s->at++;
        else if (c != '"')
            break;
        else if (s->used - base == MAX_KEYS)
            s->status = DCP_RANGE;
        else
            scan_member(s, s->keys + base, s->used - base);
    }
    s->at = s->at < s->end ? s->at + 1 : s->end;
    s->depth--;
    s->used = base;
    return s->status == DCP_OK;
}

enum dcp_status
dcp_config_scan(const struct dcp_json *json, const char *text, size_t length,
                dcp_member_sink *sink, void *user, unsigned *line)
{
    struct scan s = {
        .json = json,
        .at = text,
        .end = text + length,
        .line = 1,
        .sink = sink,
        .user = user,
    };

    s.keys = dcp_arena_alloc(&s.arena,
                             (size_t)MAX_DEPTH * MAX_KEYS * sizeof *s.keys);
    if (!s.keys)
        s.status = DCP_NOMEM;
    else if (next(&s) == '{')
        scan_object(&s);
    *line = s.line;
    dcp_arena_release(&s.arena);
    return s.status;
}
