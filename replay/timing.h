/* SPDX-License-Identifier: Apache-2.0 */
/* GPU time of calls that are issued in place, by events between them: tells
 * where segments should end, and the report where the time goes. Under the
 * session's lock. */
#ifndef DCP_REPLAY_TIMING_H
#define DCP_REPLAY_TIMING_H

#include "replay/trie.h"
#include "src/trace.h"

/* The node's call is about to be issued on its stream. */
void dcp_timing_mark(struct dcp_node *node);

/* At an iteration border, the device idle: fills in gpu_ns (at least 1) of the
 * nodes marked since the last border. */
void dcp_timing_collect(void);

/* Forgets the marks; the nodes may be gone. */
void dcp_timing_drop(void);

#endif
