/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "src/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { LINE_BYTES = 2048 };

enum dcp_log_level dcp_log_threshold = DCP_LOG_WARN;
static int log_rank = -1;
static void (*_Atomic log_listener)(enum dcp_log_level, const char *, unsigned);

void
dcp_log_set_rank(int rank)
{
    log_rank = rank;
}

void
dcp_log_listen(void (*listener)(enum dcp_log_level, const char *, unsigned))
{
    atomic_store(&log_listener, listener);
}

int
dcp_log_set_level(const char *name)
{
    static const char *const names[] = {"error", "warn", "info", "debug"};

    for (int i = 0; i < 4; i++)
        if (strcmp(name, names[i]) == 0) {
            dcp_log_threshold = (enum dcp_log_level)i;
            return 0;
        }
    return -1;
}

void
dcp_log_write(enum dcp_log_level level, const char *format, ...)
{
    static const char *const words[] = {"error: ", "warning: ", "", ""};
    char line[LINE_BYTES];
    int keep = errno, used;
    va_list ap;

    if (log_rank >= 0)
        used = snprintf(line, sizeof line, "dcprel[%d] %s", log_rank,
                        words[level & 3]);
    else
        used = snprintf(line, sizeof line, "dcprel %s", words[level & 3]);
    va_start(ap, format);
    int more = vsnprintf(line + used, sizeof line - (size_t)used - 1, format, ap);
    va_end(ap);
    if (more < 0)
        more = 0;
    int total = used + more;
    if (total > LINE_BYTES - 2) {
        total = LINE_BYTES - 2;
        memcpy(line + total - 3, "...", 3);
    }
    for (int i = used; i < total; i++)
        if (line[i] == '\n' || line[i] == '\r')
            line[i] = ' ';
    void (*listener)(enum dcp_log_level, const char *, unsigned) =
        atomic_load(&log_listener);
    if (listener)
        listener(level, line + used, (unsigned)(total - used));
    line[total++] = '\n';
    ssize_t done = write(STDERR_FILENO, line, (size_t)total);
    (void)done;
    errno = keep;
}
