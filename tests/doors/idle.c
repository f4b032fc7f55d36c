/* SPDX-License-Identifier: Apache-2.0 */
/* A program that has nothing to do with CUDA, on a machine without a driver:
 * nothing of the library is to be noticed. */
#include "config.h"

#include "tests/doors/door.h"

#include <dirent.h>
#include <errno.h>

static unsigned
entries(const char *path)
{
    DIR *dir = opendir(path);
    unsigned count = 0;

    CHECK(dir);
    for (struct dirent *d; (d = readdir(dir));)
        count += d->d_name[0] != '.';
    closedir(dir);
    return count;
}

int
main(void)
{
    char line[4096];
    FILE *maps = fopen("/proc/self/maps", "r");

    CHECK(maps);
    while (fgets(line, sizeof line, maps))
        CHECK(!strstr(line, "libcuda"));
    fclose(maps);
    CHECK(entries("/proc/self/task") == 1);
    /* Standard input, output, error and the directory itself. */
    printf("%u files\n", entries("/proc/self/fd"));

    dlerror();
    CHECK(dlsym(RTLD_DEFAULT, "cuInit") == NULL && dlerror());
    CHECK(dlsym(RTLD_DEFAULT, "cuGetProcAddress") == NULL && dlerror());
    CHECK(dlopen("libcuda.so.1", RTLD_NOW) == NULL && dlerror());
    CHECK(dlsym(RTLD_DEFAULT, "printf") == (void *)printf);
    return 0;
}
