/* SPDX-License-Identifier: Apache-2.0 */
/* The configuration: a JSON file, named by DC_CONFIG, in the shape of a
 * DeepSpeed configuration with a section "dcprel" of our own. A key is a row
 * of dc_config.def. Errors read
 *
 *     FILE:LINE: dcprel.segmnt_ms: unknown key; did you mean dcprel.segment_ms?
 */
#ifndef DCP_SRC_DC_CONFIG_H
#define DCP_SRC_DC_CONFIG_H

#include "src/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum dcp_config_kind {
    DCP_CONFIG_BOOL,
    DCP_CONFIG_INT,
    DCP_CONFIG_FLOAT,
    DCP_CONFIG_BYTES,
    DCP_CONFIG_BUDGET,
    DCP_CONFIG_WORD,
    DCP_CONFIG_TEXT,
    DCP_CONFIG_NAMES,
    DCP_CONFIG_EVERY,
    DCP_CONFIG_NUMBER, /* no field: an integer or not */
    DCP_CONFIG_LIST,   /* no field: of strings, of words where there are some */
    DCP_CONFIG_ANY,    /* no field: anything */
};

enum dcp_config_state {
    DCP_CONFIG_ACTS,
    DCP_CONFIG_ACCEPTED,
    DCP_CONFIG_LATER,
    DCP_CONFIG_REFUSED,
};

/* DCP_KEY_<field> for the rows that have one, in the order of the rows. */
#define DCP_KEY_JOIN_(line) DCP_KEY_AT_##line
#define DCP_KEY_JOIN(line) DCP_KEY_JOIN_(line)
enum dcp_config_key {
#define BOOL(state, path, field, ...) DCP_KEY_##field,
#define INT BOOL
#define FLOAT BOOL
#define BYTES BOOL
#define BUDGET BOOL
#define WORD BOOL
#define TEXT BOOL
#define NAMES BOOL
#define EVERY BOOL
#define OTHER(...) DCP_KEY_JOIN(__LINE__),
#include "src/dc_config.def"
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
    DCP_CONFIG_KEYS
};

/* The values in force. A WORD is the index of the word in its row. */
struct dcp_config {
#define BOOL(state, path, field, otherwise, help) bool field;
#define INT(state, path, field, otherwise, least, most, help) int64_t field;
#define FLOAT(state, path, field, otherwise, least, most, help) double field;
#define BYTES(state, path, field, otherwise, least, most, help) uint64_t field;
#define BUDGET(state, path, field, otherwise, help)                            \
    uint64_t field##_bytes; double field##_percent; /* one of them is 0 */
#define WORD(state, path, field, otherwise, words, help) int field;
#define TEXT(state, path, field, room, help) char field[room];
#define NAMES(state, path, field, room, help) char field[room];
#define EVERY(state, path, field, help) uint32_t field;
#define OTHER(...)
#include "src/dc_config.def"
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
    /* where each key was given first; 0: not given */
    uint32_t lines[DCP_CONFIG_KEYS];
};

/* dcprel.comm and dcprel.data. */
enum dcp_config_comm { DCP_COMM_AUTO, DCP_COMM_SELF, DCP_COMM_P2P,
                       DCP_COMM_NCCL };
enum dcp_config_data { DCP_DATA_PROGRAM, DCP_DATA_SAME, DCP_DATA_ACCUMULATE };

struct dcp_config_row {
    const char *path, *help;
    const char *words;         /* "a|b", or NULL */
    double least, most, otherwise;
    uint8_t kind, state;       /* enum dcp_config_kind, dcp_config_state */
    uint16_t room;             /* TEXT, NAMES: bytes of the field */
    int32_t offset;            /* in struct dcp_config; -1: no field */
};

extern const struct dcp_config_row dcp_config_rows[DCP_CONFIG_KEYS];

/* A key of a file that was accepted. */
struct dcp_config_found {
    const char *path;          /* as in the file */
    unsigned line;
    enum dcp_config_key key;
    bool unset;                /* null or "auto": as if it were not there */
    const char *value;         /* its JSON text, not terminated */
    size_t value_bytes;
};
typedef void dcp_config_visit(void *user, const struct dcp_config_found *found);

/* Every key at its default. */
void dcp_config_default(struct dcp_config *config);

/* Reads `length` bytes of JSON; `name` is for messages. Starts from the
 * defaults. On failure (DCP_SYNTAX, DCP_INVALID, DCP_RANGE, DCP_UNSUPPORTED,
 * DCP_IO, DCP_NOMEM) one line is in `error`, cut if it does not fit;
 * out->on_error_passthrough then still is what the text says, where the text
 * is JSON at all; other fields are not to be used. `visit` (may be NULL) gets
 * the keys that were found without fault, in order. Off the hot path: takes
 * memory from the system. */
enum dcp_status dcp_config_parse(const char *text, size_t length,
                                 const char *name, struct dcp_config *out,
                                 char *error, size_t error_bytes,
                                 dcp_config_visit *visit, void *user);

/* The same for a file, which must be a regular one of at most 1 MiB. */
enum dcp_status dcp_config_load_with(const char *path, struct dcp_config *out,
                                     char *error, size_t error_bytes,
                                     dcp_config_visit *visit, void *user);
enum dcp_status dcp_config_load(const char *path, struct dcp_config *out,
                                char *error, size_t error_bytes);

/* One info line for each key that was given and has no effect. */
void dcp_config_log(const struct dcp_config *config);

/* What a state means, for people: "acts", "accepted without effect", ... */
const char *dcp_config_state_text(enum dcp_config_state state);

/* The index of `word` (`length` bytes) in "a|b|c"; -1: not there. */
int dcp_config_word(const char *words, const char *word, size_t length);

/* The path of a row (without ".*") that is nearest to `path` in spelling, or
 * has the same last part; NULL when none is near. */
const char *dcp_config_nearest(const char *path);

#endif
