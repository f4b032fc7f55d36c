/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "src/status.h"

static const char *const status_text[] = {
#define STATUS(name, text) text,
#include "src/status.def"
#undef STATUS
};

const char *
dcp_status_text(enum dcp_status status)
{
    if ((unsigned)status >= DCP_STATUS_COUNT)
        return "unknown status";
    return status_text[status];
}
