/* SPDX-License-Identifier: Apache-2.0 */
/* The text form of a recorded log (struct dcp_log), for tests and traces: a
 * line a call, no addresses, no times, so that logs of two runs diff clean.
 *
 *   dcprel-log 1
 *   kernel 1 params 0:8 8:8 16:4 name vector_add     # name: rest of the line
 *   kernel 2 unknown name opaque_thing               # layout not known
 *   access 1 0=r 8=rw                                # found: kernel, slots
 *   buffer 0 4096                                    # number, bytes
 *   alloc 0.0 b1                                     # stream.thread
 *   launch 0.0 k1 12x4/128 m1024 a1f 0@0 8@1+256 =00ff
 *   copy 0.0 400 pageable>device sync 0@1
 *   fill 0.0 100x1/4 v0 p0 0@1
 *   record 0.0 e0 f1
 *   depend 1.0 e0 f0
 *   wait -.1                                         # on no stream
 *   opaque 0.0 0@1
 *   free 0.0 b1
 *
 * A launch: kernel, grid / block (trailing ones left out), shared memory,
 * attribute hash, references slot@buffer+offset, parameter bytes. Streams and
 * events are numbered by first use. A fill: width x height / element size,
 * value, pitch. "sync" after the fixed fields marks a blocking call. Text from
 * # to the end of a line is a comment, except in a kernel's name. */
#ifndef DCP_CAPTURE_LOG_H
#define DCP_CAPTURE_LOG_H

#include "src/arena.h"
#include "src/status.h"

#include "capture/access.h"
#include "capture/call.h"

enum dcp_log_flags {
    DCP_LOG_PARAMS = 1, /* write the parameter bytes of launches */
};

/* Writes calls [first, last) of `log` to the file descriptor, with the kernels
 * and buffers that they mention (renumbered from 0) and what `access` (may be
 * NULL) knows of the kernels. An allocation or a free outside the range is left
 * out, so the block counts as older than the text, or as still alive. No stdio;
 * one write(2) a few KiB. DCP_NOMEM, DCP_IO. */
enum dcp_status dcp_log_print(const struct dcp_log *log, uint32_t first,
                              uint32_t last, unsigned flags,
                              const struct dcp_access_table *access, int fd);

/* Reads a log. All that `out` leads to is in `arena`; the text may go. What the
 * text says of accesses is added to `access` (may be NULL). Blocks get made-up
 * addresses that do not overlap. On DCP_SYNTAX `*line` is the number of the bad
 * line. DCP_NOMEM. `out` is set on success only. */
enum dcp_status dcp_log_parse(const char *text, size_t bytes,
                              struct dcp_arena *arena, struct dcp_log *out,
                              struct dcp_access_table *access,
                              uint32_t *line);

/* Words of the text form; "?" for a value out of range. */
const char *dcp_call_text(enum dcp_call_op op);
const char *dcp_place_text(enum dcp_place place);

#endif
