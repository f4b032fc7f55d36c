/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "src/memory.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Reads a small file into `text`; false when it cannot be read. */
static int
file_read(const char *path, char *text, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return 0;
    ssize_t got = read(fd, text, size - 1);
    close(fd);
    text[got > 0 ? got : 0] = 0;
    return got > 0;
}

/* The number of kilobytes behind `name` in /proc/meminfo, in bytes. */
static size_t
field(const char *text, const char *name)
{
    const char *at = strstr(text, name);

    return at ? strtoull(at + strlen(name), NULL, 10) * 1024 : 0;
}

/* What the control group still allows; SIZE_MAX where it sets no limit. */
static size_t
group_room(void)
{
    char text[64];

    if (!file_read("/sys/fs/cgroup/memory.max", text, sizeof text) ||
        text[0] < '0' || text[0] > '9')
        return SIZE_MAX;
    size_t most = strtoull(text, NULL, 10);
    if (!file_read("/sys/fs/cgroup/memory.current", text, sizeof text))
        return SIZE_MAX;
    size_t used = strtoull(text, NULL, 10);
    return used < most ? most - used : 0;
}

size_t
dcp_memory_room(void)
{
    char text[4096];

    if (!file_read("/proc/meminfo", text, sizeof text))
        return 0;
    size_t room = field(text, "MemAvailable:");
    size_t reserve = field(text, "MemTotal:") / 20;
    size_t group = group_room();
    if (room > group)
        room = group;
    return room > reserve ? room - reserve : 0;
}
