/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "src/env.h"

#include <errno.h>
#include <limits.h>
#include <stddef.h>
#include <stdlib.h>

const struct dcp_env_row dcp_env_rows[DCP_ENV_COUNT] = {
#define ENV(name, value, help) {#name, value, help},
#include "src/env.def"
#undef ENV
};

const char *
dcp_env_text(enum dcp_env env)
{
    const char *text = getenv(dcp_env_rows[env].name);

    return text && *text ? text : NULL;
}

int
dcp_env_int(enum dcp_env env, int otherwise)
{
    const char *text = dcp_env_text(env);
    char *end;

    if (!text || *text < '0' || *text > '9')
        return otherwise;
    errno = 0;
    long value = strtol(text, &end, 10);
    return *end || errno || value > INT_MAX ? otherwise : (int)value;
}
