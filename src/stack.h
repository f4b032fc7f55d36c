/* SPDX-License-Identifier: Apache-2.0 */
/* Call stacks of the program. libunwind does the unwinding; it is opened and
 * kept to ourselves, never linked: it exports the _Unwind_ functions, and
 * before the program's own these would change how its C++ exceptions work. */
#ifndef DCP_SRC_STACK_H
#define DCP_SRC_STACK_H

#include "src/trace.h"

#include <stdbool.h>
#include <stdint.h>

enum { DCP_STACK_DEPTH = 64, DCP_STACK_LIMIT = 65536 };

/* From now on dcp_stack_take takes every `every`-th stack (0: none) and puts
 * each new one into the trace, before it returns its number. Opens libunwind:
 * call it where no lock is held. False, after one info line, when libunwind is
 * not there; dcp_stack_take then always returns 0. So it is under
 * ThreadSanitizer, which does not live through the end of a thread that
 * libunwind has walked. */
bool dcp_stack_begin(struct dcp_trace *trace, uint32_t every);

/* The number of the calling thread's stack, the same for the same stack, from
 * 1 on; without its `skip` innermost frames (0: the caller is the first), nor
 * those of this library where it is a shared one. 0: not taken. At most
 * DCP_STACK_DEPTH frames and DCP_STACK_LIMIT different stacks. Some
 * microseconds, for a new stack some milliseconds. Any thread; not for signal
 * handlers. */
uint64_t dcp_stack_take(unsigned skip);

/* Forgets everything. For tests. */
void dcp_stack_end(void);

#endif
