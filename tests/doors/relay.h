/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DCP_DOORS_RELAY_H
#define DCP_DOORS_RELAY_H

/* How often the functions of relay.c were called. */
unsigned relay_mallocs(void);
unsigned relay_syncs(void);

#endif
