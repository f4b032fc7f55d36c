/* SPDX-License-Identifier: Apache-2.0 */
/* Traces of a small invented training run, the same bytes every time, for the
 * tests of the reader and of dcprel-report. */
#ifndef DCP_TESTS_TRACE_SCENE_H
#define DCP_TESTS_TRACE_SCENE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* Writes a whole trace file. Scenes: follow (recorded, then followed, with
 * memory that is put into host memory), slow (the same with other figures),
 * watch (no configuration, killed), empty. False: no such scene. */
bool trace_scene_write(const char *scene, FILE *file, uint32_t rank,
                       uint32_t world);

#endif
