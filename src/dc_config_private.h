/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of the reader share. */
#ifndef DCP_SRC_DC_CONFIG_PRIVATE_H
#define DCP_SRC_DC_CONFIG_PRIVATE_H

#include "src/dc_config.h"
#include "src/dc_config_scan.h"
#include "src/json.h"

/* The state of one reading. Only the first fault is kept. */
struct dcp_config_reader {
    const struct dcp_json *json;
    const char *name;
    struct dcp_config *out;
    char *error;
    size_t error_bytes;
    enum dcp_status status;
    dcp_config_visit *visit;
    void *user;
};

/* Notes a fault at `line` (0: of the whole file) of `path` (NULL: none). */
void dcp_config_fault(struct dcp_config_reader *reader, enum dcp_status status,
                      unsigned line, const char *path, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/* Reads a value as `row` wants it into the field, where there is one, or notes
 * a fault. False after a fault. */
bool dcp_config_value(struct dcp_config_reader *reader,
                      const struct dcp_config_row *row,
                      const struct dcp_member *member);

/* Notes a fault when keys contradict each other. */
void dcp_config_check(struct dcp_config_reader *reader);

/* The row of a path: itself, or the nearest "above.*"; -1: none. *section is
 * set when there are rows below the path. */
int dcp_config_find(const char *path, bool *section);

#endif
