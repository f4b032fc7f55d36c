/* SPDX-License-Identifier: Apache-2.0 */
/* A library of the kind of cuDNN: opened locally, it looks its own names up,
 * relative to itself, and has a function that the driver has, too. */
#include "config.h"

#include <dlfcn.h>
#include <stdio.h>

int plugin_run(void);
int cudnnPluginOnly(void);
int cuEventQuery(void *event);

int
cudnnPluginOnly(void)
{
    return 21;
}

int
cuEventQuery(void *event)
{
    (void)event;
    return 22;
}

#define CHECK(what)                                                            \
    do {                                                                       \
        if (!(what)) {                                                         \
            printf("%s:%d: not so: %s\n", __FILE__, __LINE__, #what);          \
            return 1;                                                          \
        }                                                                      \
    } while (0)

int
plugin_run(void)
{
    int (*fn)(void), (*query)(void *);
    Dl_info info;

    /* Found only in the scope of this library. */
    *(void **)&fn = dlsym(RTLD_DEFAULT, "cudnnPluginOnly");
    CHECK(fn && fn() == 21);
    *(void **)&fn = dlsym(NULL, "cudnnPluginOnly");
    CHECK(fn && fn() == 21);
    CHECK(dlsym(RTLD_NEXT, "cudnnPluginOnly") == NULL);

    CHECK(dladdr((void *)plugin_run, &info));
    void *self = dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD);
    CHECK(self);
    *(void **)&query = dlsym(self, "cuEventQuery");
    CHECK(query && query(NULL) == 22);
    return 0;
}
