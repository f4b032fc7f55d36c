/* SPDX-License-Identifier: Apache-2.0 */
/* The thread that keeps promises: a program that stops calling the driver
 * (computes, sleeps, spins on memory that a kernel writes) must still see the
 * work done that it was told had been accepted. When calls have been held
 * back and none came for some four milliseconds, the thread issues them. */
#ifndef DCP_REPLAY_FLUSHER_H
#define DCP_REPLAY_FLUSHER_H

#include <stdbool.h>

/* Starts the thread, once; called with the session's context current. False
 * when there can be no thread: nothing may then be swallowed. */
bool dcp_flusher_start(void);

#endif
