/* SPDX-License-Identifier: Apache-2.0 */
/* The iteration that a log recorded on a GPU is used for. */
#ifndef DCP_TESTS_RECORDED_H
#define DCP_TESTS_RECORDED_H

#include "src/arena.h"

#include "capture/call.h"
#include "capture/period.h"

/* The last iteration that ends before the log does, so that its frees are all
 * there; calls [*first, *last), and in *since what dcp_lift wants. A log of two
 * iterations has but one that period finding can be sure of, the second; its
 * first begins where the log does. False when there is none. */
bool recorded_find(const struct dcp_log *log, struct dcp_period *period,
                   struct dcp_arena *arena, uint32_t *first, uint32_t *last,
                   uint32_t *since);

#endif
