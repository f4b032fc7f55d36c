/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "src/ir_word.h"

#include "src/ir.h"

#include <string.h>

static const char *const op_list[] = {
#define OP(name, text, properties) text,
#include "src/ir_op.def"
#undef OP
};
static const char *const role_list[] = {
#define ROLE(name, text, meaning) text,
#include "src/ir_role.def"
};
static const char *const part_list[] = {
#define PART(name, text, meaning) text,
#include "src/ir_role.def"
};
static const char *const place_list[] = {
#define PLACE(name, text, meaning) text,
#include "src/ir_role.def"
};
static const char *const dtype_list[] = {
#define DTYPE(name, text, bytes) text,
#include "src/ir_role.def"
};
static const char *const reduction_list[] = {
#define REDUCTION(name, text, meaning) text,
#include "src/ir_role.def"
};

const struct dcp_words dcp_op_words = { op_list, DCP_OP_COUNT };
const struct dcp_words dcp_role_words = { role_list, DCP_ROLE_COUNT };
const struct dcp_words dcp_part_words = { part_list, DCP_PART_COUNT };
const struct dcp_words dcp_place_words = { place_list, DCP_IR_PLACE_COUNT };
const struct dcp_words dcp_dtype_words = { dtype_list, DCP_DTYPE_COUNT };
const struct dcp_words dcp_reduction_words = { reduction_list,
                                               DCP_REDUCTION_COUNT };

static const char *
pick(const struct dcp_words *words, unsigned index)
{
    return index < words->count ? words->list[index] : "?";
}

const char *
dcp_op_text(enum dcp_op op)
{
    return pick(&dcp_op_words, op);
}

const char *
dcp_role_text(enum dcp_role role)
{
    return pick(&dcp_role_words, role);
}

const char *
dcp_part_text(enum dcp_part part)
{
    return pick(&dcp_part_words, part);
}

const char *
dcp_ir_place_text(enum dcp_ir_place place)
{
    return pick(&dcp_place_words, place);
}

const char *
dcp_dtype_text(enum dcp_dtype dtype)
{
    return pick(&dcp_dtype_words, dtype);
}

const char *
dcp_reduction_text(enum dcp_reduction reduction)
{
    return pick(&dcp_reduction_words, reduction);
}

unsigned
dcp_op_properties(enum dcp_op op)
{
    enum {
        WORK = DCP_IS_WORK, READS = DCP_IS_READS, WRITES = DCP_IS_WRITES,
        EVENT = DCP_IS_EVENT, MEMORY = DCP_IS_MEMORY, CUT = DCP_IS_CUT,
        GRAPH = DCP_IS_GRAPH, DROP = DCP_IS_DROP, OURS = DCP_IS_OURS,
        COLL = DCP_IS_COLL,
    };
    static const uint16_t properties[] = {
#define OP(name, text, properties) properties,
#include "src/ir_op.def"
#undef OP
    };

    return (unsigned)op < DCP_OP_COUNT ? properties[op] : 0;
}

unsigned
dcp_dtype_bytes(enum dcp_dtype dtype)
{
    static const uint8_t bytes[] = {
#define DTYPE(name, text, bytes) bytes,
#include "src/ir_role.def"
    };

    return (unsigned)dtype < DCP_DTYPE_COUNT ? bytes[dtype] : 0;
}

/* --- looking up ---------------------------------------------------------- */

int
dcp_words_find(const struct dcp_words *words, const char *word, size_t length)
{
    for (unsigned i = 0; i < words->count; i++)
        if (strlen(words->list[i]) == length &&
            !memcmp(words->list[i], word, length))
            return (int)i;
    return -1;
}

enum { LONGEST = 31 }; /* longer words are nobody's slip */

/* Insertions, deletions, changes and swaps of neighbours between two words. */
static unsigned
edits(const char *a, unsigned n, const char *b, unsigned m)
{
    unsigned d[LONGEST + 1][LONGEST + 1];

    for (unsigned i = 0; i <= n; i++)
        d[i][0] = i;
    for (unsigned j = 0; j <= m; j++)
        d[0][j] = j;
    for (unsigned i = 1; i <= n; i++) {
        for (unsigned j = 1; j <= m; j++) {
            unsigned best = d[i - 1][j - 1] + (a[i - 1] != b[j - 1]);

            if (d[i - 1][j] + 1 < best)
                best = d[i - 1][j] + 1;
            if (d[i][j - 1] + 1 < best)
                best = d[i][j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] &&
                a[i - 2] == b[j - 1] && d[i - 2][j - 2] + 1 < best)
                best = d[i - 2][j - 2] + 1;
            d[i][j] = best;
        }
    }
    return d[n][m];
}

const char *
dcp_words_nearest(const struct dcp_words *words, const char *word,
                  size_t length)
{
    unsigned least = (unsigned)(length + 1) / 3;
    const char *nearest = NULL;

    if (length > LONGEST || length < 2)
        return NULL;
    for (unsigned i = 0; i < words->count; i++) {
        size_t n = strlen(words->list[i]);

        if (n > LONGEST)
            continue;
        unsigned distance = edits(word, length, words->list[i], n);
        if (distance < least || (distance == least && !nearest)) {
            least = distance;
            nearest = words->list[i];
        }
    }
    return nearest;
}
