/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DCP_SRC_STACK_NAME_H
#define DCP_SRC_STACK_NAME_H

#include <stdbool.h>
#include <stddef.h>

/* The name of a return address: "symbol+0x1f", "libfoo.so+0x1234" where no
 * exported function covers it, "0x7f..." where no object does; cut to `room`.
 * True when it lies in the shared object that holds this very function. Unlike
 * dladdr it does not take the lock under which constructors run, so it can be
 * called with locks held that a constructor may want. */
bool dcp_stack_name(const void *frame, char *text, size_t room);

#endif
