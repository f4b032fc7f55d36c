/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "src/ir_scan.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* --- errors -------------------------------------------------------------- */

/* Notes the first error. Always false, so that callers can return it. */
bool
dcp_scan_fail(struct dcp_scan *p, const char *format, ...)
{
    struct dcp_ir_error *e = p->error;
    va_list list;
    int n;

    if (p->status)
        return false;
    p->status = DCP_SYNTAX;
    if (!e)
        return false;
    e->line = p->line;
    n = snprintf(e->text, sizeof e->text, "%.120s:%u: ", p->file, p->line);
    va_start(list, format);
    if (n > 0 && (size_t)n < sizeof e->text)
        vsnprintf(e->text + n, sizeof e->text - (size_t)n, format, list);
    va_end(list);
    return false;
}

bool
dcp_scan_no_memory(struct dcp_scan *p)
{
    dcp_scan_fail(p, "out of memory");
    p->status = DCP_NOMEM;
    return false;
}

struct dcp_shown
dcp_scan_show(struct dcp_token t)
{
    struct dcp_shown out;
    size_t n = 0;

    for (; n < t.length && n < sizeof out.text - 4; n++)
        out.text[n] = t.at[n] >= ' ' && t.at[n] <= '~' ? t.at[n] : '?';
    if (n < t.length) {
        memcpy(out.text + n, "...", 3);
        n += 3;
    }
    out.text[n] = '\0';
    return out;
}

bool
dcp_scan_unknown(struct dcp_scan *p, const char *what, struct dcp_token t,
                 const struct dcp_words *words)
{
    const char *near = dcp_words_nearest(words, t.at, t.length);

    if (near)
        return dcp_scan_fail(p, "unknown %s '%s', did you mean '%s'?", what,
                             dcp_scan_show(t).text, near);
    return dcp_scan_fail(p, "unknown %s '%s'", what, dcp_scan_show(t).text);
}

/* --- tokens -------------------------------------------------------------- */

static bool
is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

/* Goes to the next line; false at the end of the text. */
bool
dcp_scan_line(struct dcp_scan *p)
{
    if (p->line)
        p->at = p->line_end + (p->line_end < p->end);
    if (p->at >= p->end)
        return false;
    p->line_end = memchr(p->at, '\n', (size_t)(p->end - p->at));
    if (!p->line_end)
        p->line_end = p->end;
    p->line++;
    return true;
}

/* The next token of the line; false at its end or at a comment. */
bool
dcp_scan_token(struct dcp_scan *p, struct dcp_token *out)
{
    const char *c = p->at;

    while (c < p->line_end && is_blank(*c))
        c++;
    p->at = c;
    if (c == p->line_end || *c == '#')
        return false;
    if (*c == '"') {
        for (c++; c < p->line_end && *c != '"'; c++)
            if (*c == '\\' && c + 1 < p->line_end)
                c++;
        if (c == p->line_end)
            return dcp_scan_fail(p, "string without its closing quote");
        c++;
    } else {
        while (c < p->line_end && !is_blank(*c))
            c++;
    }
    *out = (struct dcp_token) { p->at, (size_t)(c - p->at) };
    p->at = c;
    return true;
}

bool
dcp_token_is(struct dcp_token t, const char *word)
{
    return strlen(word) == t.length && !memcmp(word, t.at, t.length);
}

/* Cuts a token at the first `c`: *head before it, *t behind it. */
bool
dcp_token_cut(struct dcp_token *t, char c, struct dcp_token *head)
{
    const char *at = memchr(t->at, c, t->length);

    if (!at)
        return false;
    *head = (struct dcp_token) { t->at, (size_t)(at - t->at) };
    *t = (struct dcp_token) { at + 1, t->length - head->length - 1 };
    return true;
}

/* As cut; the whole token is the head where there is no `c`. */
bool
dcp_token_next(struct dcp_token *t, char c, struct dcp_token *head)
{
    if (dcp_token_cut(t, c, head))
        return true;
    *head = *t;
    *t = (struct dcp_token) { t->at + t->length, 0 };
    return head->length > 0;
}

bool
dcp_scan_number(struct dcp_scan *p, struct dcp_token t, uint64_t most,
                uint64_t *out)
{
    uint64_t value = 0;

    if (!t.length)
        return dcp_scan_fail(p, "number missing");
    for (size_t i = 0; i < t.length; i++) {
        unsigned digit = (unsigned)t.at[i] - '0';

        if (digit > 9)
            return dcp_scan_fail(p, "'%s' is not a number",
                                 dcp_scan_show(t).text);
        if (value > (most - digit) / 10)
            return dcp_scan_fail(p, "%s is too large, at most %llu",
                                 dcp_scan_show(t).text,
                                 (unsigned long long)most);
        value = value * 10 + digit;
    }
    *out = value;
    return true;
}

bool
dcp_scan_number32(struct dcp_scan *p, struct dcp_token t, uint32_t *out)
{
    uint64_t value;

    if (!dcp_scan_number(p, t, UINT32_MAX - 1, &value))
        return false;
    *out = (uint32_t)value;
    return true;
}

bool
dcp_scan_hex(struct dcp_scan *p, struct dcp_token t, uint64_t *out)
{
    uint64_t value = 0;

    if (!t.length || t.length > 16)
        return dcp_scan_fail(p, "'%s' is not a hash of 1 to 16 hex digits",
                             dcp_scan_show(t).text);
    for (size_t i = 0; i < t.length; i++) {
        const char *digits = "0123456789abcdef";
        const char *at = memchr(digits, t.at[i], 16);

        if (!at)
            return dcp_scan_fail(p,
                                 "'%s' is not a hash in lower-case hex digits",
                                 dcp_scan_show(t).text);
        value = value * 16 + (uint64_t)(at - digits);
    }
    *out = value;
    return true;
}

/* A sigil and a number, or "-" for none. */
bool
dcp_scan_name(struct dcp_scan *p, struct dcp_token t, char sigil, uint32_t *out)
{
    if (!t.length || t.at[0] != sigil)
        return dcp_scan_fail(p, "expected %cNUMBER, found '%s'", sigil,
                             dcp_scan_show(t).text);
    t.at++;
    t.length--;
    if (dcp_token_is(t, "-")) {
        *out = DCP_NONE;
        return true;
    }
    return dcp_scan_number32(p, t, out);
}

bool
dcp_scan_word(struct dcp_scan *p, const char *what, struct dcp_token t,
              const struct dcp_words *words, uint8_t *out)
{
    int i = dcp_words_find(words, t.at, t.length);

    if (i < 0)
        return dcp_scan_unknown(p, what, t, words);
    *out = (uint8_t)i;
    return true;
}

static int
hex_digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                  : -1;
}

/* The text of a string token, in the scratch arena; NULL after an error. */
char *
dcp_scan_string(struct dcp_scan *p, struct dcp_token t)
{
    char *out = dcp_arena_alloc(&p->scratch, t.length);
    size_t n = 0;

    if (!out)
        return dcp_scan_no_memory(p), NULL;
    for (const char *c = t.at + 1, *end = t.at + t.length - 1; c < end; c++) {
        char byte = *c;

        if (byte == '\\') {
            byte = *++c;
            if (byte == 'x' && end - c > 2 && hex_digit(c[1]) >= 0 &&
                hex_digit(c[2]) >= 0) {
                byte = (char)(hex_digit(c[1]) * 16 + hex_digit(c[2]));
                c += 2;
            } else if (byte == 'n' || byte == 't') {
                byte = byte == 'n' ? '\n' : '\t';
            } else if (byte != '"' && byte != '\\') {
                return dcp_scan_fail(p, "unknown escape in a string"), NULL;
            }
        }
        if (!byte)
            return dcp_scan_fail(p, "NUL byte in a string"), NULL;
        out[n++] = byte;
    }
    out[n] = '\0';
    return out;
}

/* --- lists --------------------------------------------------------------- */

/* Room for one more; lists are reused from line to line. */
bool
dcp_scan_more(struct dcp_scan *p, void **list, uint32_t count, uint32_t *room,
              size_t item)
{
    if (count < *room)
        return true;
    uint32_t next = *room ? 2 * *room : 64;
    void *fresh =
        next > *room ? dcp_arena_alloc(&p->scratch, next * item) : NULL;
    if (!fresh)
        return dcp_scan_no_memory(p);
    if (count)
        memcpy(fresh, *list, count * item);
    *list = fresh;
    *room = next;
    return true;
}

bool
dcp_scan_push(struct dcp_scan *p, uint32_t value)
{
    if (!dcp_scan_more(p, (void **)&p->numbers, p->number_count,
                       &p->number_room, sizeof *p->numbers))
        return false;
    p->numbers[p->number_count++] = value;
    return true;
}

/* Each key may stand once in a line. */
bool
dcp_scan_once(struct dcp_scan *p, uint64_t *seen, unsigned bit,
              struct dcp_token key)
{
    if (*seen >> bit & 1)
        return dcp_scan_fail(p, "'%s' is given twice", dcp_scan_show(key).text);
    *seen |= (uint64_t)1 << bit;
    return true;
}
