/* SPDX-License-Identifier: Apache-2.0 */
/* The one place that includes uthash: running out of memory must never end
 * the program, so a failed insertion leaves the table as it was and sets
 * `dcp_table_oom` to the element that found no place. */
#ifndef DCP_SRC_TABLE_H
#define DCP_SRC_TABLE_H

#include "src/alloc.h"

#include <stddef.h>
#include <stdlib.h>

static __thread const void *dcp_table_oom __attribute__((unused));

#define uthash_malloc(bytes) dcp_malloc(bytes)
#define HASH_NONFATAL_OOM 1
#define uthash_nonfatal_oom(element) (dcp_table_oom = (element))
#include <uthash.h>

#endif
