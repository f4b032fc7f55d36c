/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DCP_DOORS_FRONT_H
#define DCP_DOORS_FRONT_H

/* How deep the front's functions have called each other. */
unsigned front_depth(void);

/* Exported by the back: how often its functions were called. */
unsigned back_calls(void);

#endif
