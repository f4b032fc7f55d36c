/* SPDX-License-Identifier: Apache-2.0 */
/* Result codes of dcprel's own functions; one row each in status.def. */
#ifndef DCP_SRC_STATUS_H
#define DCP_SRC_STATUS_H

enum dcp_status {
#define STATUS(name, text) DCP_##name,
#include "src/status.def"
#undef STATUS
    DCP_STATUS_COUNT
};

/* The English text of a status; never NULL, static storage. */
const char *dcp_status_text(enum dcp_status status);

#endif
