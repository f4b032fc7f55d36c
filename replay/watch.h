/* SPDX-License-Identifier: Apache-2.0 */
/* Watching without a configuration: nothing is changed, and only when a trace
 * is asked for (DCPREL_TRACE) is anything listened to at all. */
#ifndef DCP_REPLAY_WATCH_H
#define DCP_REPLAY_WATCH_H

#include "src/trace.h"

/* Installs a sink that writes allocations, frees and the totals of every
 * watched call to `trace`. Does nothing for NULL. */
void dcp_watch_start(struct dcp_trace *trace);

/* The last totals, at the end of the process. */
void dcp_watch_end(void);

#endif
