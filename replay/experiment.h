/* SPDX-License-Identifier: Apache-2.0 */
/* Access discovery during the warm-up: loads the library's own kernels and
 * surrounds a few eager launches with hashes (capture/access.h). */
#ifndef DCP_REPLAY_EXPERIMENT_H
#define DCP_REPLAY_EXPERIMENT_H

#include "capture/access.h"

/* What has been found so far; empty when nothing could be. */
extern struct dcp_access_table dcp_experiment_table;

/* Around an eager call of the warm-up, under the session's lock in begin and
 * end. begin: true when end must follow. */
bool dcp_experiment_begin(const struct dcp_call *call);
void dcp_experiment_end(const struct dcp_call *call, bool ok);

/* Releases what the experiment holds on the device; the table stays. */
void dcp_experiment_stop(void);

/* Recording begins again: so may the experiment. */
void dcp_experiment_again(void);

#endif
