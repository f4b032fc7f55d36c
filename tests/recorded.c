/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "tests/recorded.h"

bool
recorded_find(const struct dcp_log *log, struct dcp_period *period,
              struct dcp_arena *arena, uint32_t *first, uint32_t *last,
              uint32_t *since)
{
    struct dcp_period_options options = {.repeats = 1, .min_calls = 16};

    if (dcp_period_find(log, &options, period, arena) != DCP_OK ||
        !period->iterations)
        return false;
    uint32_t end = period->iterations;
    while (end > 0 && period->borders[end] == log->call_count)
        end--;
    *first = end ? period->borders[end - 1] : 0;
    *last = period->borders[end];
    *since = end > 1 ? period->borders[end - 2] : 0;
    return *last > 0;
}
