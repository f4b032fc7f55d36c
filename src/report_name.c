/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels and frames carry mangled C++ names. The C++ library that reads them
 * is on nearly every machine, but no reason to link to it. */
#include "config.h"

#include "src/report_out.h"

#include "src/report.h"
#include "src/table.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

struct name {
    char *mangled, *plain;
    UT_hash_handle hh;
};

typedef char *demangler(const char *, char *, size_t *, int *);

static demangler *
find_demangler(void)
{
    static demangler *found;
    static bool looked;

    if (looked)
        return found;
    looked = true;
    void *library = dlopen("libstdc++.so.6", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        library = dlopen("libc++abi.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library)
        *(void **)&found = dlsym(library, "__cxa_demangle");
    return found;
}

/* Frees nothing while the tool runs: names are few, and cells point at them. */
const char *
dcp_demangle(const char *mangled)
{
    static struct name *names;
    struct name *name;
    int status;

    if (strncmp(mangled, "_Z", 2) || !find_demangler())
        return mangled;
    HASH_FIND_STR(names, mangled, name);
    if (name)
        return name->plain;
    name = dcp_xcalloc(1, sizeof *name);
    name->mangled = dcp_xstrndup(mangled, strlen(mangled));
    name->plain = find_demangler()(mangled, NULL, NULL, &status);
    if (!name->plain)
        name->plain = name->mangled;
    HASH_ADD_KEYPTR(hh, names, name->mangled, strlen(name->mangled), name);
    return name->plain;
}
