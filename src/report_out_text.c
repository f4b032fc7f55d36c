/* SPDX-License-Identifier: Apache-2.0 */
/* For the terminal: aligned columns, and charts drawn with letters. */
#include "config.h"

#include "src/report.h"
#include "src/report_out.h"

#include <stdlib.h>
#include <string.h>

enum { FACT_WIDTH = 36, CELL_WIDTH = 64, BAR = 56, BAR_ROWS = 24 };

static void
text_section(struct dcp_out *out, const char *key, const char *title,
             const char *rank)
{
    (void)key;
    if (out->bare)
        return;
    if (out->sections++)
        fputc('\n', out->file);
    fprintf(out->file, "%s%s%s\n", title, rank ? ", " : "", rank ? rank : "");
}

static void
text_fact(struct dcp_out *out, const char *key, const char *title,
          struct dcp_cell cell)
{
    char buffer[64];

    (void)key;
    if (!out->bare)
        fprintf(out->file, "  %-*s %s\n", FACT_WIDTH, title,
                dcp_cell_print(cell, buffer));
}

static void
text_note(struct dcp_out *out, const char *text)
{
    if (!out->bare)
        fprintf(out->file, "  (%s)\n", text);
}

/* --- tables -------------------------------------------------------------- */

/* Characters, not bytes. */
static int
text_width(const char *text)
{
    int width = 0;

    for (; *text; text++)
        width += (*text & 0xc0) != 0x80;
    return width;
}

/* What a cell shows: long texts lose their middle. The caller frees. */
static char *
show(struct dcp_cell cell)
{
    enum { HALF = (CELL_WIDTH - 3) / 2 };
    char buffer[64];
    const char *text = dcp_cell_print(cell, buffer);
    size_t n = strlen(text), head = HALF, tail = n - HALF;

    if (text_width(text) <= CELL_WIDTH)
        return dcp_xstrndup(text, n);
    while (head && (text[head] & 0xc0) == 0x80)
        head--;
    while (tail < n && (text[tail] & 0xc0) == 0x80)
        tail++;
    return dcp_xprintf("%.*s...%s", (int)head, text, text + tail);
}

static bool
is_number(const struct dcp_table *table, unsigned column)
{
    for (size_t row = 0; row < table->rows; row++)
        if (table->cells[row * table->width + column].kind == DCP_CELL_TEXT)
            return false;
    return true;
}

static void
print_cell(FILE *file, const char *text, int width, bool right, bool last)
{
    int pad = width - text_width(text);

    if (right)
        fprintf(file, "  %*s%s", pad, "", text);
    else
        fprintf(file, "  %s%*s", text, last ? 0 : pad, "");
}

static void
print_below(FILE *file, const char *text)
{
    while (*text) {
        size_t n = strcspn(text, "\n");
        fprintf(file, "        %.*s\n", (int)n, text);
        text += n + (text[n] == '\n');
    }
}

static unsigned
last_beside(const struct dcp_table *table)
{
    unsigned last = 0;

    for (unsigned c = 0; c < table->width; c++)
        if (!table->columns[c].below)
            last = c;
    return last;
}

/* How a table is laid out. */
struct layout {
    char **shown; /* by cell */
    int *widths;  /* by column */
    bool *right;
    unsigned last; /* column beside the others */
};

static void
lay_out(const struct dcp_table *table, struct layout *layout)
{
    unsigned width = table->width;

    layout->shown = dcp_xcalloc(table->rows * width, sizeof(char *));
    layout->widths = dcp_xcalloc(width, sizeof(int));
    layout->right = dcp_xcalloc(width, sizeof(bool));
    layout->last = last_beside(table);
    for (unsigned c = 0; c < width; c++) {
        layout->widths[c] = text_width(table->columns[c].title);
        layout->right[c] = is_number(table, c);
    }
    for (size_t i = 0; i < table->rows * width; i++) {
        unsigned c = (unsigned)(i % width);
        if (table->columns[c].below)
            continue;
        layout->shown[i] = show(table->cells[i]);
        int n = text_width(layout->shown[i]);
        if (n > layout->widths[c])
            layout->widths[c] = n;
    }
}

static void
print_row(FILE *file, const struct dcp_table *table,
          const struct layout *layout, size_t row)
{
    size_t first = row * table->width;

    for (unsigned c = 0; c < table->width; c++)
        if (!table->columns[c].below)
            print_cell(file, layout->shown[first + c], layout->widths[c],
                       layout->right[c], c == layout->last);
    fputc('\n', file);
    for (unsigned c = 0; c < table->width; c++)
        if (table->columns[c].below &&
            table->cells[first + c].kind == DCP_CELL_TEXT)
            print_below(file, table->cells[first + c].text);
}

static void
text_table(struct dcp_out *out, const struct dcp_table *table)
{
    struct layout layout;

    lay_out(table, &layout);
    if (!out->only)
        fprintf(out->file, "\n  %s\n", table->title);
    for (unsigned c = 0; c < table->width; c++)
        if (!table->columns[c].below)
            print_cell(out->file, table->columns[c].title, layout.widths[c],
                       layout.right[c], c == layout.last);
    fputc('\n', out->file);
    for (size_t row = 0; row < table->rows; row++)
        print_row(out->file, table, &layout, row);
    for (size_t i = 0; i < table->rows * table->width; i++)
        free(layout.shown[i]);
    free(layout.shown);
    free(layout.widths);
    free(layout.right);
}

/* --- charts -------------------------------------------------------------- */

static uint64_t
area_total(const struct dcp_chart *chart, size_t sample)
{
    uint64_t total = 0;

    for (unsigned s = 0; s < chart->areas; s++)
        if (chart->y[sample * chart->series + s] != DCP_NO_VALUE)
            total += chart->y[sample * chart->series + s];
    return total;
}

/* The letter of an area: capitals, so that bars read well. */
static char
letter(const struct dcp_chart *chart, unsigned series)
{
    char c = chart->names[series][0];

    for (unsigned s = 0; s < series; s++)
        if (chart->names[s][0] == c)
            return (char)('0' + series);
    return c >= 'a' && c <= 'z' ? (char)(c - 'a' + 'A') : c;
}

static void
draw_bar(struct dcp_out *out, const struct dcp_chart *chart, uint64_t at_x,
         size_t sample, uint64_t most)
{
    char bar[BAR + 1], when[64], size[64];
    uint64_t sum = 0;
    int at = 0;

    for (unsigned s = 0; s < chart->areas; s++) {
        uint64_t value = chart->y[sample * chart->series + s];
        sum += value == DCP_NO_VALUE ? 0 : value;
        int end = (int)((double)sum / (double)most * BAR + 0.5);
        for (; at < end && at < BAR; at++)
            bar[at] = letter(chart, s);
    }
    bar[at] = '\0';
    struct dcp_cell x = {chart->x_kind, {.value = at_x}};
    struct dcp_cell y = {chart->y_kind, {.value = sum}};
    dcp_cell_print(x, when);
    dcp_cell_print(y, size);
    fprintf(out->file, "  %10s |%-*s %s\n", when, BAR, bar, size);
}

static bool
has_values(const struct dcp_chart *chart, unsigned series)
{
    for (size_t i = 0; i < chart->samples; i++)
        if (chart->y[i * chart->series + series] != DCP_NO_VALUE &&
            chart->y[i * chart->series + series])
            return true;
    return false;
}

static uint64_t
row_start(const struct dcp_chart *chart, size_t row, size_t rows)
{
    uint64_t first = chart->x[0], last = chart->x[chart->samples - 1];

    return first + (uint64_t)((double)(last - first) * (double)row /
                              (double)rows);
}

/* Rows are equal stretches of x; the highest sample of each stands for it. */
static void
text_chart(struct dcp_out *out, const struct dcp_chart *chart)
{
    size_t rows = BAR_ROWS;
    uint64_t most = 1, span = chart->x[chart->samples - 1] - chart->x[0];

    if (chart->look != DCP_CHART_AREAS)
        return;
    if (span < rows)
        rows = (size_t)span + 1;
    for (size_t i = 0; i < chart->samples; i++)
        if (area_total(chart, i) > most)
            most = area_total(chart, i);
    fprintf(out->file, "\n  %s%s", chart->title, most > 1 ? " (" : "");
    for (unsigned s = 0, shown = 0; s < chart->areas; s++)
        if (has_values(chart, s))
            fprintf(out->file, "%s%c %s", shown++ ? ", " : "",
                    letter(chart, s), chart->names[s]);
    fputs(most > 1 ? ")\n" : "\n", out->file);
    for (size_t row = 0, i = 0; row < rows; row++) {
        uint64_t from = row_start(chart, row, rows), shown = from;
        uint64_t to = row_start(chart, row + 1, rows);
        size_t best = i ? i - 1 : 0; /* the sample that holds at the start */
        for (; i < chart->samples && (chart->x[i] < to || row + 1 == rows);
             i++)
            if (chart->x[i] == from ||
                area_total(chart, i) > area_total(chart, best)) {
                best = i;
                shown = chart->x[i];
            }
        draw_bar(out, chart, shown, best, most);
    }
}

static void
text_lines(struct dcp_out *out, const char *key, const char *title,
           const char *language, const char *text, size_t length)
{
    (void)key;
    (void)language;
    if (!out->bare)
        fprintf(out->file, "\n  %s\n", title);
    fwrite(text, 1, length, out->file);
    if (length && text[length - 1] != '\n')
        fputc('\n', out->file);
}

const struct dcp_out_ops dcp_out_text = {
    .name = "text",
    .section = text_section,
    .fact = text_fact,
    .note = text_note,
    .table = text_table,
    .chart = text_chart,
    .text = text_lines,
};
