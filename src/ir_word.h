/* SPDX-License-Identifier: Apache-2.0 */
/* The closed word lists of the IR's text form, for the parser and tools. */
#ifndef DCP_SRC_IR_WORD_H
#define DCP_SRC_IR_WORD_H

#include <stddef.h>

struct dcp_words {
    const char *const *list;
    unsigned count;
};

extern const struct dcp_words dcp_op_words, dcp_role_words, dcp_part_words,
    dcp_place_words, dcp_dtype_words, dcp_reduction_words;

/* The index of `word` (not terminated) in the list, or -1. */
int dcp_words_find(const struct dcp_words *words, const char *word,
                   size_t length);

/* The listed word with the fewest edits from `word`, if they are few enough
 * for a likely slip (about a third of its length); else NULL. */
const char *dcp_words_nearest(const struct dcp_words *words, const char *word,
                              size_t length);

#endif
