/* SPDX-License-Identifier: Apache-2.0 */
/* The environment variables that dcprel reads; one row each in env.def. */
#ifndef DCP_SRC_ENV_H
#define DCP_SRC_ENV_H

enum dcp_env {
#define ENV(name, ...) DCP_ENV_##name,
#include "src/env.def"
#undef ENV
    DCP_ENV_COUNT
};

struct dcp_env_row {
    const char *name, *value, *help; /* value: what it looks like */
};

extern const struct dcp_env_row dcp_env_rows[DCP_ENV_COUNT];

/* The value; NULL when it is not set, or empty. */
const char *dcp_env_text(enum dcp_env env);

/* The value as a decimal integer from 0 on; `otherwise` when it is not set or
 * is none. */
int dcp_env_int(enum dcp_env env, int otherwise);

#endif
