/* SPDX-License-Identifier: Apache-2.0 */
/* What each buffer of an iteration is to the program, and to which part of
 * the iteration each node belongs. Guesses: what results depend on is checked
 * later against an eager iteration. */
#ifndef DCP_CAPTURE_ROLE_H
#define DCP_CAPTURE_ROLE_H

#include "src/ir.h"
#include "src/status.h"

/* Fills in the role of every buffer and the part of every node, from
 * persistence, positions, sizes and what is known of accesses:
 *
 *   state  persistent, touched in the update only
 *   param  persistent, touched in the update and before; not written before,
 *          as far as is known; or persistent and known to be only read
 *   grad   touched before the update and in it, next to a param or state of
 *          a size that fits; or persistent and written outside the update
 *   input  first filled from the host
 *   stat   persistent, written (or perhaps written) outside the update only
 *   work   touched within a few launches; act: any other
 *
 * The update is found as the end of the iteration where persistent buffers
 * are touched for the first time (states), else where they are touched for
 * the last time (parameters without states). Without an update nothing is
 * param, state or grad but what is known to be only read. Replaces roles and
 * parts that were there. DCP_NOMEM leaves them as they were. Time n log n. */
enum dcp_status dcp_role_fill(struct dcp_graph *graph);

#endif
