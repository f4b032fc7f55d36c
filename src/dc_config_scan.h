/* SPDX-License-Identifier: Apache-2.0 */
/* Walks JSON text that is known to be well-formed and tells each member of
 * each object, with its path and line: what jansson does not keep. */
#ifndef DCP_SRC_DC_CONFIG_SCAN_H
#define DCP_SRC_DC_CONFIG_SCAN_H

#include "src/json.h"
#include "src/status.h"

#include <stdbool.h>
#include <stddef.h>

struct dcp_member {
    const char *path;  /* keys joined by dots */
    unsigned line;     /* of the key */
    char kind;         /* { [ " t f n or 0 for a number */
    const char *value; /* JSON text, not terminated */
    size_t value_bytes;
    unsigned first_line; /* a duplicate: where the key was before; else 0 */
};

/* True: the members of this object are told too. */
typedef bool dcp_member_sink(void *user, const struct dcp_member *member);

/* DCP_OK; DCP_NOMEM; DCP_RANGE when the text is nested more than 64 deep or an
 * object has more than 1,000 keys (*line says where). */
enum dcp_status
dcp_config_scan(const struct dcp_json *json, const char *text, size_t length,
                dcp_member_sink *sink, void *user, unsigned *line);

#endif
