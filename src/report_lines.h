/* SPDX-License-Identifier: Apache-2.0 */
/* What two texts have in common, line by line. */
#ifndef DCP_SRC_REPORT_LINES_H
#define DCP_SRC_REPORT_LINES_H

#include <stdbool.h>
#include <stddef.h>

/* Writes the difference of two texts, as `diff -u` with three lines around
 * each change, or in two columns. Fills *text (the caller frees) and *length;
 * nothing is written for equal texts. Returns the number of changed lines. Very
 * different texts are not searched for the shortest difference. Dies when
 * memory is out. */
size_t dcp_lines_diff(const char *a, size_t a_bytes, const char *b,
                      size_t b_bytes, bool side_by_side, char **text,
                      size_t *length);

#endif
