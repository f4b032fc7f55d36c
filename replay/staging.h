/* SPDX-License-Identifier: Apache-2.0 */
/* Where the bytes of a pageable upload wait until the graph copies them: the
 * program may overwrite or free its buffer as soon as its call returns. Two
 * pinned slots a node, used in turn; a slot is written again only when the
 * copy that read it has been seen to end. Guarded by the session's lock. */
#ifndef DCP_REPLAY_STAGING_H
#define DCP_REPLAY_STAGING_H

#include "capture/record.h"

struct dcp_stage;

/* Uploads above this many bytes are never staged; they are issued in place. */
#define DCP_STAGE_MAX ((uint64_t)64 << 20)

/* True when the source of an upload must be copied at call time. */
static inline bool
dcp_stage_wanted(const struct dcp_view *view)
{
    return view->copy.src_place == DCP_PLACE_PAGEABLE ||
           (view->sync && view->copy.src_place == DCP_PLACE_PINNED);
}

/* Makes sure that a stage of `bytes` exists. The address of its current slot,
 * or 0. */
uint64_t dcp_stage_reserve(struct dcp_stage **stage, uint64_t bytes);

/* Copies the source bytes into the next slot; makes or enlarges the stage as
 * needed. May wait for the copy before last. The slot's address, or 0 when it
 * cannot be done (the caller issues the call in place). */
uint64_t dcp_stage_put(struct dcp_stage **stage, const struct dcp_view *view);

/* To be called once the copy out of the current slot was issued on `stream`. */
void dcp_stage_issued(struct dcp_stage *stage, CUstream stream);

/* Releases the stage (accepts a NULL one) once its copies are done. */
void dcp_stage_drop(struct dcp_stage **stage);

#endif
