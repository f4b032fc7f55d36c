/* SPDX-License-Identifier: Apache-2.0 */
/* Myers' O(ND) comparison in linear space: the middle of a shortest path is
 * found from both ends, then each half in turn. */
#include "config.h"

#include "src/report_lines.h"

#include "src/report.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { AROUND = 3, COLUMN = 76, MOST_STEPS = 3000 };

struct side {
    const char **line;
    size_t *length;
    uint64_t *hash;
    bool *changed; /* the line is not in the other text */
    long count;
};

struct compare {
    struct side a, b;
    long *forward, *backward; /* furthest places by diagonal */
    long offset;              /* of diagonal 0 in them */
};

/* --- lines --------------------------------------------------------------- */

static void
split(struct side *side, const char *text, size_t bytes)
{
    size_t room = 0, n = 0;

    for (size_t i = 0; i < bytes; i++)
        room += text[i] == '\n';
    room++;
    side->line = dcp_xcalloc(room, sizeof *side->line);
    side->length = dcp_xcalloc(room, sizeof *side->length);
    side->hash = dcp_xcalloc(room, sizeof *side->hash);
    side->changed = dcp_xcalloc(room, sizeof *side->changed);
    for (size_t at = 0; at < bytes; n++) {
        const char *end = memchr(text + at, '\n', bytes - at);
        size_t length = end ? (size_t)(end - text) - at : bytes - at;
        uint64_t hash = 14695981039346656037u;
        for (size_t i = 0; i < length; i++)
            hash = (hash ^ (unsigned char)text[at + i]) * 1099511628211u;
        side->line[n] = text + at;
        side->length[n] = length;
        side->hash[n] = hash;
        at += length + 1;
    }
    side->count = (long)n;
}

static void
release(struct side *side)
{
    free(side->line);
    free(side->length);
    free(side->hash);
    free(side->changed);
}

static bool
same(const struct compare *c, long x, long y)
{
    return c->a.hash[x] == c->b.hash[y] && c->a.length[x] == c->b.length[y] &&
           !memcmp(c->a.line[x], c->b.line[y], c->a.length[x]);
}

/* --- comparison ---------------------------------------------------------- */

struct box {
    long x0, x1, y0, y1; /* lines [x0, x1) of a and [y0, y1) of b */
};

/* One more step from the start; true when the paths meet, at *x, *y. */
static bool
step_forward(struct compare *c, struct box box, long d, long *x, long *y)
{
    long delta = (box.x1 - box.x0) - (box.y1 - box.y0);
    long *f = c->forward + c->offset, *r = c->backward + c->offset;

    for (long k = -d; k <= d; k += 2) {
        long at = k == -d || (k != d && f[k - 1] < f[k + 1]) ? f[k + 1]
                                                             : f[k - 1] + 1;
        long other = at - k;
        while (box.x0 + at < box.x1 && box.y0 + other < box.y1 && other >= 0 &&
               same(c, box.x0 + at, box.y0 + other)) {
            at++;
            other++;
        }
        f[k] = at;
        if (delta % 2 && k - delta >= -(d - 1) && k - delta <= d - 1 &&
            at + r[delta - k] >= box.x1 - box.x0) {
            *x = box.x0 + at;
            *y = box.y0 + other;
            return true;
        }
    }
    return false;
}

/* The same from the end; r[] counts lines of a from the end. */
static bool
step_backward(struct compare *c, struct box box, long d, long *x, long *y)
{
    long delta = (box.x1 - box.x0) - (box.y1 - box.y0);
    long *f = c->forward + c->offset, *r = c->backward + c->offset;

    for (long k = -d; k <= d; k += 2) {
        long at = k == -d || (k != d && r[k - 1] < r[k + 1]) ? r[k + 1]
                                                             : r[k - 1] + 1;
        long other = at - k;
        while (box.x1 - at > box.x0 && box.y1 - other > box.y0 && other >= 0 &&
               same(c, box.x1 - at - 1, box.y1 - other - 1)) {
            at++;
            other++;
        }
        r[k] = at;
        if (delta % 2 == 0 && delta - k >= -d && delta - k <= d &&
            at + f[delta - k] >= box.x1 - box.x0) {
            *x = box.x1 - at;
            *y = box.y1 - other;
            return true;
        }
    }
    return false;
}

/* A point in the middle of a shortest path; false when that is too far. */
static bool
middle(struct compare *c, struct box box, long *x, long *y)
{
    c->forward[c->offset + 1] = c->backward[c->offset + 1] = 0;
    for (long d = 0; d < MOST_STEPS; d++)
        if (step_forward(c, box, d, x, y) || step_backward(c, box, d, x, y))
            return true;
    return false;
}

static void
mark(struct compare *c, struct box box)
{
    for (long x = box.x0; x < box.x1; x++)
        c->a.changed[x] = true;
    for (long y = box.y0; y < box.y1; y++)
        c->b.changed[y] = true;
}

static void
compare(struct compare *c, struct box box)
{
    long x, y;

    while (box.x0 < box.x1 && box.y0 < box.y1 && same(c, box.x0, box.y0)) {
        box.x0++;
        box.y0++;
    }
    while (box.x0 < box.x1 && box.y0 < box.y1 &&
           same(c, box.x1 - 1, box.y1 - 1)) {
        box.x1--;
        box.y1--;
    }
    if (box.x0 == box.x1 || box.y0 == box.y1 || !middle(c, box, &x, &y) ||
        (x == box.x0 && y == box.y0) || (x == box.x1 && y == box.y1)) {
        mark(c, box);
        return;
    }
    compare(c, (struct box){box.x0, x, box.y0, y});
    compare(c, (struct box){x, box.x1, y, box.y1});
}

/* --- writing ------------------------------------------------------------- */

static void
put(FILE *file, char sign, const struct side *side, long line)
{
    fputc(sign, file);
    fwrite(side->line[line], 1, side->length[line], file);
    fputc('\n', file);
}

/* The ends of a hunk that begins with the change at x, y: changes that are
 * closer than twice the context belong together. */
static void
hunk_end(const struct compare *c, long x, long y, long *x1, long *y1)
{
    long equal = 0;

    while ((x < c->a.count || y < c->b.count) && equal <= 2 * AROUND) {
        bool gone = x < c->a.count && c->a.changed[x];
        bool new = y < c->b.count && c->b.changed[y];
        if (!gone && !new)
            equal++;
        else
            equal = 0;
        x += gone || !new;
        y += new || !gone;
        if (equal == 0) {
            *x1 = x;
            *y1 = y;
        }
    }
}

static void
write_hunk(const struct compare *c, FILE *file, struct box box)
{
    long x = box.x0, y = box.y0;

    fprintf(file, "@@ -%ld,%ld +%ld,%ld @@\n",
            box.x1 > box.x0 ? x + 1 : x, box.x1 - box.x0,
            box.y1 > box.y0 ? y + 1 : y, box.y1 - box.y0);
    while (x < box.x1 || y < box.y1) {
        while (x < box.x1 && c->a.changed[x])
            put(file, '-', &c->a, x++);
        while (y < box.y1 && c->b.changed[y])
            put(file, '+', &c->b, y++);
        if (x < box.x1 && y < box.y1) {
            put(file, ' ', &c->a, x++);
            y++;
        }
    }
}

static void
write_unified(const struct compare *c, FILE *file)
{
    long x = 0, y = 0, x1 = 0, y1 = 0;

    while (x < c->a.count || y < c->b.count) {
        if ((x >= c->a.count || !c->a.changed[x]) &&
            (y >= c->b.count || !c->b.changed[y])) {
            x++;
            y++;
            continue;
        }
        hunk_end(c, x, y, &x1, &y1);
        long before = x < AROUND ? x : AROUND;
        long after = c->a.count - x1 < AROUND ? c->a.count - x1 : AROUND;
        write_hunk(c, file,
                   (struct box){x - before, x1 + after, y - before,
                                y1 + after});
        x = x1;
        y = y1;
    }
}

static void
write_pair(const struct compare *c, FILE *file, long x, long y, char sign)
{
    size_t left = x >= 0 ? c->a.length[x] : 0;
    int shown = left > COLUMN ? COLUMN : (int)left;

    fprintf(file, "%-*.*s %c ", COLUMN, shown, x >= 0 ? c->a.line[x] : "",
            sign);
    if (y >= 0)
        fwrite(c->b.line[y], 1,
               c->b.length[y] > COLUMN ? COLUMN : c->b.length[y], file);
    fputc('\n', file);
}

static void
write_columns(const struct compare *c, FILE *file)
{
    long x = 0, y = 0;

    while (x < c->a.count || y < c->b.count) {
        bool gone = x < c->a.count && c->a.changed[x];
        bool new = y < c->b.count && c->b.changed[y];
        char sign = gone && new ? '|' : gone ? '<' : new ? '>' : ' ';
        bool left = sign != '>' && x < c->a.count;
        bool right = sign != '<' && y < c->b.count;
        if (!left && !right)
            break;
        write_pair(c, file, left ? x : -1, right ? y : -1, sign);
        x += left;
        y += right;
    }
}

static size_t
count_changes(const struct side *side)
{
    size_t n = 0;

    for (long i = 0; i < side->count; i++)
        n += side->changed[i];
    return n;
}

size_t
dcp_lines_diff(const char *a, size_t a_bytes, const char *b, size_t b_bytes,
               bool side_by_side, char **text, size_t *length)
{
    struct compare c = {0};

    split(&c.a, a, a_bytes);
    split(&c.b, b, b_bytes);
    c.offset = MOST_STEPS + c.a.count + c.b.count + 2;
    c.forward = dcp_xcalloc(2 * (size_t)c.offset + 2, sizeof *c.forward);
    c.backward = dcp_xcalloc(2 * (size_t)c.offset + 2, sizeof *c.backward);
    compare(&c, (struct box){0, c.a.count, 0, c.b.count});
    size_t changes = count_changes(&c.a) + count_changes(&c.b);
    FILE *file = open_memstream(text, length);
    if (!file)
        dcp_die("out of memory");
    if (changes && side_by_side)
        write_columns(&c, file);
    else if (changes)
        write_unified(&c, file);
    if (fclose(file))
        dcp_die("out of memory");
    release(&c.a);
    release(&c.b);
    free(c.forward);
    free(c.backward);
    return changes;
}
