/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "src/json.h"

#include "src/lock.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <string.h>

static struct dcp_lock lock;
static struct dcp_json functions;
static bool open;

static bool
resolve(void *library)
{
    void *found;

#define JSON(result, name, parameters)                                         \
    found = dlsym(library, "json_" #name);                                     \
    if (!found)                                                                \
        return false;                                                          \
    memcpy(&functions.name, &found, sizeof found);
    DCP_JSON_FUNCTIONS(JSON)
#undef JSON
    return true;
}

static bool
library_open(const char **why)
{
    void *library = dlopen("libjansson.so.4", RTLD_NOW | RTLD_LOCAL);

    if (!library || !resolve(library)) {
        const char *text = dlerror();

        if (why)
            *why = text ? text : "libjansson.so.4 cannot be used";
        if (library)
            dlclose(library);
        return false;
    }
    return true;
}

const struct dcp_json *
dcp_json_open(const char **why)
{
    dcp_lock_take(&lock);
    if (!open)
        open = library_open(why);
    dcp_lock_give(&lock);
    return open ? &functions : NULL;
}
