/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DCP_SRC_MEMORY_H
#define DCP_SRC_MEMORY_H

#include <stddef.h>

/* Bytes of host memory that may be pinned now without driving the system out
 * of memory: what the kernel calls available, not above what the control
 * group leaves, less a reserve of a twentieth. 0 when the system does not
 * say. Reads files: not for hot paths. */
size_t dcp_memory_room(void);

#endif
