/* SPDX-License-Identifier: Apache-2.0 */
/* make_trace SCENE FILE [RANK WORLD]: see trace_scene.h. */
#include "config.h"

#include "tests/trace_scene.h"

#include <stdlib.h>

int
main(int argc, char **argv)
{
    uint32_t rank = argc > 3 ? (uint32_t)atoi(argv[3]) : 0;
    uint32_t world = argc > 4 ? (uint32_t)atoi(argv[4]) : 1;
    FILE *file = argc < 3 ? NULL : fopen(argv[2], "wb");

    if (!file || !trace_scene_write(argv[1], file, rank, world))
        return 2;
    return fclose(file) != 0;
}
