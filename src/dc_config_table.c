/* SPDX-License-Identifier: Apache-2.0 */
/* The rows as a table, and what can be asked of it. */
#include "config.h"

#include "src/dc_config_private.h"

#include "src/log.h"

#include <string.h>

#define AT(field) (int32_t) offsetof(struct dcp_config, field)
#define ROW(kind_, state_, path_, help_, ...)                                  \
    {.path = path_,                                                            \
     .help = help_,                                                            \
     .kind = DCP_CONFIG_##kind_,                                               \
     .state = DCP_CONFIG_##state_,                                             \
     __VA_ARGS__},

const struct dcp_config_row dcp_config_rows[DCP_CONFIG_KEYS] = {
#define BOOL(state, path, field, def, help)                                    \
    ROW(BOOL, state, path, help, .offset = AT(field), .otherwise = def)
#define INT(state, path, field, def, low, high, help)                          \
    ROW(INT, state, path, help, .offset = AT(field), .otherwise = def,         \
        .least = low, .most = high)
#define FLOAT(state, path, field, def, low, high, help)                        \
    ROW(FLOAT, state, path, help, .offset = AT(field), .otherwise = def,       \
        .least = low, .most = high)
#define BYTES(state, path, field, def, low, high, help)                        \
    ROW(BYTES, state, path, help, .offset = AT(field), .otherwise = def,       \
        .least = low, .most = high)
#define BUDGET(state, path, field, def, help)                                  \
    ROW(BUDGET, state, path, help, .offset = AT(field##_bytes),                \
        .otherwise = def, .most = 1e15)
#define WORD(state, path, field, def, list, help)                              \
    ROW(WORD, state, path, help, .offset = AT(field), .otherwise = def,        \
        .words = list)
#define TEXT(state, path, field, bytes, help)                                  \
    ROW(TEXT, state, path, help, .offset = AT(field), .room = bytes)
#define NAMES(state, path, field, bytes, help)                                 \
    ROW(NAMES, state, path, help, .offset = AT(field), .room = bytes)
#define EVERY(state, path, field, help)                                        \
    ROW(EVERY, state, path, help, .offset = AT(field), .most = 1e9)
#define OTHER(state, path, kind, low, high, list, help)                        \
    ROW(kind, state, path, help, .offset = -1, .least = low, .most = high,     \
        .words = list)
#include "src/dc_config.def"
};

void
dcp_config_default(struct dcp_config *config)
{
    memset(config, 0, sizeof *config);
#undef BOOL
#undef INT
#undef FLOAT
#undef BYTES
#undef BUDGET
#undef WORD
#undef TEXT
#undef NAMES
#undef EVERY
#undef OTHER
#define BOOL(state, path, field, def, help) config->field = def;
#define INT(state, path, field, def, ...) config->field = def;
#define FLOAT INT
#define BYTES INT
#define WORD INT
#define BUDGET(state, path, field, def, help) config->field##_bytes = def;
#define TEXT(...)
#define NAMES(...)
#define EVERY(...)
#define OTHER(...)
#include "src/dc_config.def"
}

const char *
dcp_config_state_text(enum dcp_config_state state)
{
    static const char *const texts[] = {
        "acts",
        "accepted without effect",
        "without effect in this version",
        "refused",
    };

    return texts[state & 3];
}

int
dcp_config_word(const char *words, const char *word, size_t length)
{
    for (int i = 0;; i++) {
        size_t bytes = strcspn(words, "|");

        if (bytes == length && !memcmp(words, word, length))
            return i;
        if (words[bytes] == '\0')
            return -1;
        words += bytes + 1;
    }
}

/* --- finding ------------------------------------------------------------- */

/* Bytes of a row's path without ".*". */
static size_t
stem(const struct dcp_config_row *row, bool *open)
{
    size_t length = strlen(row->path);

    *open = length > 2 && row->path[length - 1] == '*';
    return *open ? length - 2 : length;
}

int
dcp_config_find(const char *path, bool *section)
{
    size_t length = strlen(path), best = 0;
    int found = -1;

    *section = false;
    for (int i = 0; i < DCP_CONFIG_KEYS; i++) {
        const struct dcp_config_row *row = &dcp_config_rows[i];
        bool open;
        size_t bytes = stem(row, &open);

        if (bytes == length && !memcmp(row->path, path, length)) {
            if (!open)
                return i;
            *section = true;
            found = i;
            best = bytes;
        } else if (bytes > length && row->path[length] == '.' &&
                   !memcmp(row->path, path, length)) {
            *section = true;
        } else if (open && bytes < length && path[bytes] == '.' &&
                   bytes >= best && !memcmp(row->path, path, bytes)) {
            found = i;
            best = bytes;
        }
    }
    return found;
}

/* --- the nearest path ---------------------------------------------------- */

enum { NEAR_BYTES = 96 };

/* Insertions, deletions, replacements, and swaps of neighbours. */
static unsigned
distance(const char *a, size_t a_length, const char *b, size_t b_length)
{
    unsigned row[3][NEAR_BYTES + 1];

    for (unsigned j = 0; j <= b_length; j++)
        row[0][j] = j;
    for (size_t i = 1; i <= a_length; i++) {
        unsigned *now = row[i % 3], *old = row[(i + 2) % 3];
        const unsigned *older = row[(i + 1) % 3];

        now[0] = (unsigned)i;
        for (size_t j = 1; j <= b_length; j++) {
            unsigned best = old[j - 1] + (a[i - 1] != b[j - 1]);

            if (old[j] + 1 < best)
                best = old[j] + 1;
            if (now[j - 1] + 1 < best)
                best = now[j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] &&
                a[i - 2] == b[j - 1] && older[j - 2] + 1 < best)
                best = older[j - 2] + 1;
            now[j] = best;
        }
    }
    return row[a_length % 3][b_length];
}

static const char *
last_part(const char *path)
{
    const char *dot = strrchr(path, '.');

    return dot ? dot + 1 : path;
}

/* Bytes of the first parts of a row's path, as many as `path` has. */
static size_t
as_many_parts(const char *row, const char *path)
{
    size_t length = strcspn(row, ".");

    for (; (path = strchr(path, '.')) && row[length]; path++)
        length += 1 + strcspn(row + length + 1, ".");
    return length;
}

struct near {
    const char *path;
    size_t length, bytes; /* of path; of the nearest */
    unsigned distance;
    const char *found;
};

static void
near_try(struct near *n, const char *candidate, size_t bytes)
{
    if (bytes > NEAR_BYTES)
        return;
    unsigned d = distance(n->path, n->length, candidate, bytes);
    if (d < n->distance) {
        n->distance = d;
        n->found = candidate;
        n->bytes = bytes;
    }
}

const char *
dcp_config_nearest(const char *path)
{
    static __thread char text[NEAR_BYTES + 1];
    struct near n = {.path = path, .length = strlen(path)};

    n.distance = (unsigned)strlen(last_part(path)) / 3 + 2;
    if (n.length > NEAR_BYTES)
        return NULL;
    for (int i = 0; i < DCP_CONFIG_KEYS; i++) {
        const char *row = dcp_config_rows[i].path;
        bool open;
        size_t bytes = stem(&dcp_config_rows[i], &open);
        size_t some = as_many_parts(row, path);

        near_try(&n, row, bytes);
        if (some < bytes)
            near_try(&n, row, some);
        /* the right name in the wrong place */
        if (n.distance > 1 && !open &&
            !strcmp(last_part(path), last_part(row))) {
            n.distance = 1;
            n.found = row;
            n.bytes = bytes;
        }
    }
    if (!n.found)
        return NULL;
    memcpy(text, n.found, n.bytes);
    text[n.bytes] = '\0';
    return text;
}

void
dcp_config_log(const struct dcp_config *config)
{
    for (int i = 0; i < DCP_CONFIG_KEYS; i++) {
        const struct dcp_config_row *row = &dcp_config_rows[i];

        if (config->lines[i] && row->state != DCP_CONFIG_ACTS)
            dcp_info("%s: %s (%s)", row->path,
                     dcp_config_state_text(row->state), row->help);
    }
}
