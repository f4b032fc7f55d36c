/* SPDX-License-Identifier: Apache-2.0 */
/* The IR parser's ground: lines, tokens, numbers, errors. Only ir_parse.c and
 * ir_parse_node.c include it. Functions that return bool return false after
 * they noted an error; the first error of a text is the one that is kept. */
#ifndef DCP_SRC_IR_SCAN_H
#define DCP_SRC_IR_SCAN_H

#include "src/ir.h"
#include "src/ir_word.h"

/* A piece of the text: blank-separated, or a quoted string with its quotes. */
struct dcp_token {
    const char *at;
    size_t length;
};

struct dcp_scan {
    const char *file;
    const char *at, *end; /* what is left of the text */
    const char *line_end;
    unsigned line;

    struct dcp_graph *graph;
    uint8_t part;   /* of the nodes that follow */
    uint16_t micro;
    bool versioned, stepped;

    struct dcp_arena scratch;
    struct dcp_ir_ref *refs; /* of the node being read */
    uint32_t *numbers;       /* of the list being read */
    uint32_t ref_count, ref_room, number_count, number_room;

    enum dcp_status status;
    struct dcp_ir_error *error; /* may be NULL */
};

/* A token as it can stand in a message: short and printable. */
struct dcp_shown {
    char text[40];
};

/* --- ir_scan.c ----------------------------------------------------------- */

/* Always false, so that callers can return it. */
bool dcp_scan_fail(struct dcp_scan *p, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
bool dcp_scan_no_memory(struct dcp_scan *p);

/* Fails with the token and the listed word that is nearest to it. */
bool dcp_scan_unknown(struct dcp_scan *p, const char *what,
                      struct dcp_token t, const struct dcp_words *words);

struct dcp_shown dcp_scan_show(struct dcp_token t);

/* Goes to the next line; false at the end of the text. */
bool dcp_scan_line(struct dcp_scan *p);

/* The next token of the line; false at its end, at a comment (p->at is then
 * its '#') and after an error. */
bool dcp_scan_token(struct dcp_scan *p, struct dcp_token *out);

bool dcp_token_is(struct dcp_token t, const char *word);

/* Cuts a token at the first `c`: *head before it, *t behind it. False where
 * there is none. */
bool dcp_token_cut(struct dcp_token *t, char c, struct dcp_token *head);

/* Takes the items of a list apart one by one; false at its end. */
bool dcp_token_next(struct dcp_token *t, char c, struct dcp_token *head);

/* Decimal, at most `most` (at least 9). number32 stops short of DCP_NONE. */
bool dcp_scan_number(struct dcp_scan *p, struct dcp_token t, uint64_t most,
                     uint64_t *out);
bool dcp_scan_number32(struct dcp_scan *p, struct dcp_token t, uint32_t *out);
bool dcp_scan_hex(struct dcp_scan *p, struct dcp_token t, uint64_t *out);

/* A sigil and a number, or "-" in its place for DCP_NONE. */
bool dcp_scan_name(struct dcp_scan *p, struct dcp_token t, char sigil,
                   uint32_t *out);
bool dcp_scan_word(struct dcp_scan *p, const char *what, struct dcp_token t,
                   const struct dcp_words *words, uint8_t *out);

/* The text of a string token, in the scratch arena; NULL after an error. */
char *dcp_scan_string(struct dcp_scan *p, struct dcp_token t);

/* Room for one more item in a list that is reused from line to line. */
bool dcp_scan_more(struct dcp_scan *p, void **list, uint32_t count,
                   uint32_t *room, size_t item);
bool dcp_scan_push(struct dcp_scan *p, uint32_t value); /* to p->numbers */

/* Notes that a key was seen; fails the second time. `bit` below 64. */
bool dcp_scan_once(struct dcp_scan *p, uint64_t *seen, unsigned bit,
                   struct dcp_token key);

/* --- ir_parse_node.c ----------------------------------------------------- */

/* The rest of a node's line, whose first token is `t`. */
bool dcp_parse_node(struct dcp_scan *p, struct dcp_token t);

#endif
