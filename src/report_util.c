/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "src/report.h"

#include "src/clock.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool dcp_quiet;

static void
say(const char *format, va_list ap)
{
    if (dcp_quiet)
        return;
    dcp_progress(NULL, 0, 0);
    fflush(stdout);
    fputs("dcprel-report: ", stderr);
    vfprintf(stderr, format, ap);
    fputc('\n', stderr);
}

void
dcp_complain(const char *format, ...)
{
    va_list ap;

    va_start(ap, format);
    say(format, ap);
    va_end(ap);
}

void
dcp_die(const char *format, ...)
{
    va_list ap;

    va_start(ap, format);
    say(format, ap);
    va_end(ap);
    exit(2);
}

void *
dcp_xcalloc(size_t count, size_t size)
{
    void *at = calloc(count ? count : 1, size);

    if (!at)
        dcp_die("out of memory");
    return at;
}

void *
dcp_xrealloc(void *old, size_t count, size_t size)
{
    void *at = reallocarray(old, count ? count : 1, size);

    if (!at)
        dcp_die("out of memory");
    return at;
}

char *
dcp_xstrndup(const char *text, size_t length)
{
    char *copy = strndup(text, length);

    if (!copy)
        dcp_die("out of memory");
    return copy;
}

void *
dcp_xgrow(void *array, size_t count, size_t *room, size_t size)
{
    if (count < *room)
        return array;
    *room = *room ? *room * 2 : 16;
    return dcp_xrealloc(array, *room, size);
}

char *
dcp_xprintf(const char *format, ...)
{
    va_list ap;
    char *text;

    va_start(ap, format);
    if (vasprintf(&text, format, ap) < 0)
        dcp_die("out of memory");
    va_end(ap);
    return text;
}

void
dcp_progress(const char *what, uint64_t done, uint64_t total)
{
    static uint64_t start, shown;
    static int tty = -1;
    uint64_t now;

    if (tty < 0)
        tty = isatty(STDERR_FILENO);
    if (!tty)
        return;
    if (total == 0) {
        if (shown)
            fputs("\r\033[K", stderr);
        shown = 0;
        return;
    }
    now = dcp_now_ns();
    if (!start)
        start = now;
    if (now - start < 500000000 || now - shown < 100000000)
        return;
    shown = now;
    fprintf(stderr, "\r%s: %3.0f %%\033[K", what,
            100.0 * (double)done / (double)total);
    fflush(stderr);
}

/* Steps of insertion, deletion, exchange and swap of neighbours. */
static unsigned
distance(const char *a, const char *b)
{
    enum { LONG = 40 };
    unsigned rows[3][LONG + 1];
    size_t n = strlen(a), m = strlen(b);

    if (n > LONG || m > LONG)
        return LONG;
    for (unsigned j = 0; j <= m; j++)
        rows[0][j] = j;
    for (unsigned i = 1; i <= n; i++) {
        unsigned *row = rows[i % 3], *up = rows[(i + 2) % 3];
        row[0] = i;
        for (unsigned j = 1; j <= m; j++) {
            unsigned best = up[j - 1] + (a[i - 1] != b[j - 1]);
            if (best > up[j] + 1)
                best = up[j] + 1;
            if (best > row[j - 1] + 1)
                best = row[j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] &&
                a[i - 2] == b[j - 1] && best > rows[(i + 1) % 3][j - 2] + 1)
                best = rows[(i + 1) % 3][j - 2] + 1;
            row[j] = best;
        }
    }
    return rows[n % 3][m];
}

const char *
dcp_nearest(const char *word, const char *const *candidates, size_t count)
{
    unsigned best = (unsigned)strlen(word) / 3 + 2;
    const char *found = NULL;

    for (size_t i = 0; i < count; i++) {
        unsigned d = distance(word, candidates[i]);
        if (d < best) {
            best = d;
            found = candidates[i];
        }
    }
    return found;
}
