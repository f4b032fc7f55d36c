/* SPDX-License-Identifier: Apache-2.0 */
/* Comma-separated values: every table and chart, each behind a line
 * "# key: title" and its column names; --table picks one and leaves that line
 * out. Numbers are plain, times in ns, sizes in bytes. */
#include "config.h"

#include "src/report.h"
#include "src/report_out.h"

#include <stdlib.h>
#include <string.h>

struct csv {
    const char *section;
    bool in_facts; /* the rows of the fact table are being written */
    bool headed;   /* --table: the column names have been written */
};

static void
field(FILE *file, const char *text)
{
    if (!text[strcspn(text, ",\"\r\n")]) {
        fputs(text, file);
        return;
    }
    fputc('"', file);
    for (; *text; text++) {
        if (*text == '"')
            fputc('"', file);
        fputc(*text, file);
    }
    fputc('"', file);
}

static void
csv_begin(struct dcp_out *out, const char *title)
{
    (void)title;
    out->state = dcp_xcalloc(1, sizeof(struct csv));
}

static void
csv_end(struct dcp_out *out)
{
    free(out->state);
}

static void
csv_section(struct dcp_out *out, const char *key, const char *title,
            const char *rank)
{
    struct csv *csv = out->state;

    (void)title;
    (void)rank;
    csv->section = key;
    csv->in_facts = false;
}

/* Starts a table; false: its column names are there already. */
static bool
head(struct dcp_out *out, const char *key, const char *title)
{
    struct csv *csv = out->state;

    csv->in_facts = false;
    if (out->only) {
        bool first = !csv->headed;
        csv->headed = true;
        return first;
    }
    fprintf(out->file, "%s# %s: %s\n", out->items++ ? "\n" : "", key, title);
    return true;
}

static void
csv_fact(struct dcp_out *out, const char *key, const char *title,
         struct dcp_cell cell)
{
    struct csv *csv = out->state;
    char buffer[64];

    (void)title;
    if (!csv->in_facts) {
        head(out, csv->section, "facts");
        fputs(out->rank ? "rank,fact,value\n" : "fact,value\n", out->file);
        csv->in_facts = true;
    }
    if (out->rank)
        fprintf(out->file, "%s,", out->rank);
    field(out->file, key);
    fputc(',', out->file);
    field(out->file, dcp_cell_print_raw(cell, buffer));
    fputc('\n', out->file);
}

static void
csv_table(struct dcp_out *out, const struct dcp_table *table)
{
    unsigned width = table->width;
    char buffer[64];

    if (head(out, table->key, table->title)) {
        fputs(out->rank ? "rank," : "", out->file);
        for (unsigned c = 0; c < width; c++)
            fprintf(out->file, "%s%s", c ? "," : "", table->columns[c].key);
        fputc('\n', out->file);
    }
    for (size_t row = 0; row < table->rows; row++) {
        if (out->rank)
            fprintf(out->file, "%s,", out->rank);
        for (unsigned c = 0; c < width; c++) {
            fputs(c ? "," : "", out->file);
            field(out->file, dcp_cell_print_raw(
                                 table->cells[row * width + c], buffer));
        }
        fputc('\n', out->file);
    }
}

static void
csv_chart(struct dcp_out *out, const struct dcp_chart *chart)
{
    if (head(out, chart->key, chart->title)) {
        fprintf(out->file, "%s%s", out->rank ? "rank," : "",
                chart->x_kind == DCP_CELL_NS ? "time_ns" : "number");
        for (unsigned s = 0; s < chart->series; s++)
            fprintf(out->file, ",%s", chart->names[s]);
        fputc('\n', out->file);
    }
    for (size_t i = 0; i < chart->samples; i++) {
        if (out->rank)
            fprintf(out->file, "%s,", out->rank);
        fprintf(out->file, "%llu", (unsigned long long)chart->x[i]);
        for (unsigned s = 0; s < chart->series; s++) {
            uint64_t y = chart->y[i * chart->series + s];
            if (y == DCP_NO_VALUE)
                fputc(',', out->file);
            else
                fprintf(out->file, ",%llu", (unsigned long long)y);
        }
        fputc('\n', out->file);
    }
}

const struct dcp_out_ops dcp_out_csv = {
    .name = "csv",
    .begin = csv_begin,
    .end = csv_end,
    .section = csv_section,
    .fact = csv_fact,
    .table = csv_table,
    .chart = csv_chart,
};
