/* SPDX-License-Identifier: Apache-2.0 */
/* For the programs here: they run as they are, and with the spy (or the real
 * library) preloaded; what they check about the driver holds either way. */
#ifndef DCP_DOORS_DOOR_H
#define DCP_DOORS_DOOR_H

#include "tests/doors/driver.h"
#include "tests/doors/spy.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(what)                                                            \
    do {                                                                       \
        if (!(what)) {                                                         \
            printf("%s:%d: not so: %s\n", __FILE__, __LINE__, #what);          \
            exit(1);                                                           \
        }                                                                      \
    } while (0)

/* The spy's eyes; NULL without it. Each program has its own copy. */
static inline struct spy *
spy(void)
{
    static struct spy *(*get)(void);

    if (!get)
        *(void **)&get = dlsym(RTLD_DEFAULT, "spy_get");
    return get ? get() : NULL;
}

/* The recording driver's memory; NULL when another driver is loaded. */
static inline struct driver *
driver(void)
{
    struct driver *(*get)(void);
    void *library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);

    *(void **)&get = library ? dlsym(library, "driver_get") : NULL;
    return get ? get() : NULL;
}

/* With the spy: that it saw a call of `symbol` (this very form) since the last
 * question. Without: true. */
static inline int
seen(const char *symbol)
{
    struct spy *s = spy();
    int yes = !s || (s->symbol && strcmp(s->symbol, symbol) == 0);

    if (s)
        s->symbol = NULL;
    return yes;
}

/* That the driver itself was called by that symbol last. */
static inline int
reached(const char *symbol)
{
    struct driver *d = driver();
    int yes = d && d->symbol && strcmp(d->symbol, symbol) == 0;

    if (d)
        d->symbol = NULL;
    return yes;
}

#endif
