/* SPDX-License-Identifier: Apache-2.0 */
/* JSON for programs: {"title", "sections": [{"key", "title", "rank", "facts":
 * {key: value}, "notes": [], "tables": {key: [{column: value}]}, "charts":
 * {key: {"x", series name: [values]}}, "texts": {key: text}}]}. Times are ns,
 * sizes bytes, shares 0 to 1. */
#include "config.h"

#include "src/report.h"
#include "src/report_out.h"

#include <stdlib.h>
#include <string.h>

enum bucket { FACTS, NOTES, TABLES, CHARTS, TEXTS, BUCKETS };

static const struct {
    const char *name;
    char open, close;
} buckets[BUCKETS] = {
    {"facts", '{', '}'},  {"notes", '[', ']'}, {"tables", '{', '}'},
    {"charts", '{', '}'}, {"texts", '{', '}'},
};

/* A section's parts come in any order and are written kind by kind. */
struct json {
    FILE *part[BUCKETS];
    char *text[BUCKETS];
    size_t length[BUCKETS];
    bool open;
};

static void
string(FILE *file, const char *text)
{
    fputc('"', file);
    dcp_json_string(file, text, strlen(text));
    fputc('"', file);
}

static void
value(FILE *file, struct dcp_cell cell)
{
    char buffer[64];

    if (cell.kind == DCP_CELL_NONE)
        fputs("null", file);
    else if (cell.kind == DCP_CELL_TEXT)
        string(file, cell.text);
    else
        fputs(dcp_cell_print_raw(cell, buffer), file);
}

static void
json_begin(struct dcp_out *out, const char *title)
{
    out->state = dcp_xcalloc(1, sizeof(struct json));
    fputs("{\"title\": ", out->file);
    string(out->file, title);
    fputs(", \"sections\": [", out->file);
}

static void
close_section(struct dcp_out *out)
{
    struct json *json = out->state;

    for (int b = 0; json->open && b < BUCKETS; b++) {
        if (fclose(json->part[b]))
            dcp_die("out of memory");
        if (json->length[b])
            fprintf(out->file, ",\n  \"%s\": %c%s%c", buckets[b].name,
                    buckets[b].open, json->text[b], buckets[b].close);
        free(json->text[b]);
    }
    if (json->open)
        fputs("}", out->file);
    json->open = false;
}

static void
json_section(struct dcp_out *out, const char *key, const char *title,
             const char *rank)
{
    struct json *json = out->state;

    close_section(out);
    fprintf(out->file, "%s\n {\"key\": ", out->sections++ ? "," : "");
    string(out->file, key);
    fputs(", \"title\": ", out->file);
    string(out->file, title);
    if (rank) {
        fputs(", \"rank\": ", out->file);
        string(out->file, rank);
    }
    for (int b = 0; b < BUCKETS; b++) {
        json->part[b] = open_memstream(&json->text[b], &json->length[b]);
        if (!json->part[b])
            dcp_die("out of memory");
    }
    json->open = true;
}

/* The stream of a bucket, after a comma where one is due. */
static FILE *
next(struct dcp_out *out, enum bucket bucket)
{
    struct json *json = out->state;

    if (!json->open)
        json_section(out, "report", "report", NULL);
    fflush(json->part[bucket]);
    if (json->length[bucket])
        fputs(",\n   ", json->part[bucket]);
    return json->part[bucket];
}

static void
json_fact(struct dcp_out *out, const char *key, const char *title,
          struct dcp_cell cell)
{
    FILE *file = next(out, FACTS);

    (void)title;
    string(file, key);
    fputs(": ", file);
    value(file, cell);
}

static void
json_note(struct dcp_out *out, const char *text)
{
    string(next(out, NOTES), text);
}

static void
json_table(struct dcp_out *out, const struct dcp_table *table)
{
    FILE *file = next(out, TABLES);

    string(file, table->key);
    fputs(": [", file);
    for (size_t row = 0; row < table->rows; row++) {
        fputs(row ? ",\n    {" : "\n    {", file);
        for (unsigned c = 0; c < table->width; c++) {
            fputs(c ? ", " : "", file);
            string(file, table->columns[c].key);
            fputs(": ", file);
            value(file, table->cells[row * table->width + c]);
        }
        fputc('}', file);
    }
    fputc(']', file);
}

static void
numbers(FILE *file, const uint64_t *from, size_t count, size_t stride)
{
    fputc('[', file);
    for (size_t i = 0; i < count; i++) {
        fputs(i ? "," : "", file);
        if (from[i * stride] == DCP_NO_VALUE)
            fputs("null", file);
        else
            fprintf(file, "%llu", (unsigned long long)from[i * stride]);
    }
    fputc(']', file);
}

static void
json_chart(struct dcp_out *out, const struct dcp_chart *chart)
{
    FILE *file = next(out, CHARTS);

    string(file, chart->key);
    fputs(": {\"x\": ", file);
    numbers(file, chart->x, chart->samples, 1);
    for (unsigned s = 0; s < chart->series; s++) {
        fputs(",\n    ", file);
        string(file, chart->names[s]);
        fputs(": ", file);
        numbers(file, chart->y + s, chart->samples, chart->series);
    }
    fputc('}', file);
}

static void
json_text(struct dcp_out *out, const char *key, const char *title,
          const char *language, const char *text, size_t length)
{
    FILE *file = next(out, TEXTS);

    (void)title;
    (void)language;
    string(file, key);
    fputs(": \"", file);
    dcp_json_string(file, text, length);
    fputc('"', file);
}

static void
json_end(struct dcp_out *out)
{
    close_section(out);
    fputs("\n]}\n", out->file);
    free(out->state);
}

const struct dcp_out_ops dcp_out_json = {
    .name = "json",
    .begin = json_begin,
    .end = json_end,
    .section = json_section,
    .fact = json_fact,
    .note = json_note,
    .table = json_table,
    .chart = json_chart,
    .text = json_text,
};
