/* SPDX-License-Identifier: Apache-2.0 */
/* One page that needs nothing from outside. Facts, tables and texts are plain
 * HTML; charts are data beside a script of the page (report.html), which draws
 * them. */
#include "config.h"

#include "src/report.h"
#include "src/report_out.h"

#include <string.h>

/* report.html as a string, made by a rule of the Makefile. */
static const char page[] =
#include "src/report_page.inc"
    ;

/* Places of the page where something is put in. */
static const char title_mark[] = "<!--title-->", body_mark[] = "<!--body-->";

enum place { NOWHERE, IN_SECTION, IN_FACTS };

struct html {
    enum place place;
};
static struct html html;

static void
escaped(struct dcp_out *out, const char *text)
{
    dcp_html_string(out->file, text, strlen(text));
}

static void
html_begin(struct dcp_out *out, const char *title)
{
    const char *head = strstr(page, title_mark);
    const char *body = strstr(page, body_mark);

    html.place = NOWHERE;
    fwrite(page, 1, (size_t)(head - page), out->file);
    escaped(out, title);
    head += sizeof title_mark - 1;
    fwrite(head, 1, (size_t)(body - head), out->file);
    fputs("<h1>", out->file);
    escaped(out, title);
    fputs("</h1>\n", out->file);
}

static void
leave(struct dcp_out *out, enum place place)
{
    if (html.place == IN_FACTS && place < IN_FACTS) {
        fputs("</dl>\n", out->file);
        html.place = IN_SECTION;
    }
    if (html.place == IN_SECTION && place < IN_SECTION) {
        fputs("</section>\n", out->file);
        html.place = NOWHERE;
    }
}

static void
html_end(struct dcp_out *out)
{
    leave(out, NOWHERE);
    fputs(strstr(page, body_mark) + sizeof body_mark - 1, out->file);
}

static void
html_section(struct dcp_out *out, const char *key, const char *title,
             const char *rank)
{
    leave(out, NOWHERE);
    fprintf(out->file, "<section id=\"%s-%u\"><h2>", key, out->sections++);
    escaped(out, title);
    if (rank) {
        fputs(" <small>", out->file);
        escaped(out, rank);
        fputs("</small>", out->file);
    }
    fputs("</h2>\n", out->file);
    html.place = IN_SECTION;
}

static void
html_fact(struct dcp_out *out, const char *key, const char *title,
          struct dcp_cell cell)
{
    char buffer[64];

    (void)key;
    if (html.place != IN_FACTS)
        fputs("<dl>", out->file);
    html.place = IN_FACTS;
    fputs("<div><dt>", out->file);
    escaped(out, title);
    fputs("</dt><dd>", out->file);
    escaped(out, dcp_cell_print(cell, buffer));
    fputs("</dd></div>\n", out->file);
}

static void
html_note(struct dcp_out *out, const char *text)
{
    leave(out, IN_SECTION);
    fputs("<p class=\"note\">", out->file);
    escaped(out, text);
    fputs("</p>\n", out->file);
}

static void
html_cell(struct dcp_out *out, struct dcp_cell cell)
{
    char buffer[64];

    if (cell.kind == DCP_CELL_TEXT)
        fputs("<td>", out->file);
    else if (cell.kind == DCP_CELL_NONE)
        fputs("<td class=\"n\">", out->file);
    else
        fprintf(out->file, "<td class=\"n\" data-v=\"%s\">",
                dcp_cell_print_raw(cell, buffer));
    escaped(out, dcp_cell_print(cell, buffer));
    fputs("</td>", out->file);
}

/* Text that is long: the first line shows, a click shows all. */
static void
html_below(struct dcp_out *out, const char *text)
{
    size_t first = strcspn(text, "\n");

    fputs("<td class=\"s\"><details><summary>", out->file);
    dcp_html_string(out->file, text, first);
    fputs("</summary><pre>", out->file);
    escaped(out, text);
    fputs("</pre></details></td>", out->file);
}

static void
html_table(struct dcp_out *out, const struct dcp_table *table)
{
    leave(out, IN_SECTION);
    fputs("<h3>", out->file);
    escaped(out, table->title);
    fprintf(out->file, "</h3>\n<div class=\"scroll\"><table class=\"%s\">"
            "<thead><tr>", table->key);
    for (unsigned c = 0; c < table->width; c++) {
        bool number = table->cells[c].kind != DCP_CELL_TEXT &&
                      !table->columns[c].below;
        fputs(number ? "<th class=\"n\">" : "<th>", out->file);
        escaped(out, table->columns[c].title);
        fputs("</th>", out->file);
    }
    fputs("</tr></thead><tbody>\n", out->file);
    for (size_t i = 0; i < table->rows * table->width; i++) {
        unsigned c = (unsigned)(i % table->width);
        if (c == 0)
            fputs("<tr>", out->file);
        if (table->columns[c].below && table->cells[i].kind == DCP_CELL_TEXT)
            html_below(out, table->cells[i].text);
        else
            html_cell(out, table->cells[i]);
        if (c + 1 == table->width)
            fputs("</tr>\n", out->file);
    }
    fputs("</tbody></table></div>\n", out->file);
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
html_chart(struct dcp_out *out, const struct dcp_chart *chart)
{
    FILE *file = out->file;

    leave(out, IN_SECTION);
    fputs("<h3>", file);
    escaped(out, chart->title);
    fprintf(file, "</h3>\n<figure class=\"chart\"><script "
            "type=\"application/json\">{\"look\":\"%s\",\"x\":\"%s\","
            "\"y\":\"%s\",\"areas\":%u,\"xs\":",
            chart->look == DCP_CHART_AREAS ? "areas" : "points",
            chart->x_kind == DCP_CELL_NS ? "ns" : "count",
            chart->y_kind == DCP_CELL_BYTES ? "bytes" : "ns", chart->areas);
    numbers(file, chart->x, chart->samples, 1);
    fputs(",\"series\":[", file);
    for (unsigned s = 0; s < chart->series; s++) {
        fprintf(file, "%s{\"name\":\"", s ? "," : "");
        dcp_json_string(file, chart->names[s], strlen(chart->names[s]));
        fputs("\",\"ys\":", file);
        numbers(file, chart->y + s, chart->samples, chart->series);
        fputc('}', file);
    }
    fputs("],\"marks\":[", file);
    for (unsigned m = 0; m < chart->mark_count; m++) {
        fprintf(file, "%s{\"x\":%llu,\"text\":\"", m ? "," : "",
                (unsigned long long)chart->marks[m].x);
        dcp_json_string(file, chart->marks[m].text,
                        strlen(chart->marks[m].text));
        fputs("\"}", file);
    }
    fputs("]}</script></figure>\n", file);
}

static const char *
line_class(const char *line)
{
    return *line == '+' ? "add" : *line == '-' ? "del" : *line == '@' ? "at"
                                                                       : NULL;
}

static void
html_text(struct dcp_out *out, const char *key, const char *title,
          const char *language, const char *text, size_t length)
{
    bool diff = !strcmp(language, "diff");

    (void)key;
    leave(out, IN_SECTION);
    fprintf(out->file, "<details%s><summary>", diff ? " open" : "");
    escaped(out, title);
    fputs("</summary><pre>", out->file);
    while (length) {
        const char *end = memchr(text, '\n', length);
        size_t n = end ? (size_t)(end - text) + 1 : length;
        const char *class = diff ? line_class(text) : NULL;
        if (class)
            fprintf(out->file, "<span class=\"%s\">", class);
        dcp_html_string(out->file, text, n);
        if (class)
            fputs("</span>", out->file);
        text += n;
        length -= n;
    }
    fputs("</pre></details>\n", out->file);
}

const struct dcp_out_ops dcp_out_html = {
    .name = "html",
    .whole_page = true,
    .begin = html_begin,
    .end = html_end,
    .section = html_section,
    .fact = html_fact,
    .note = html_note,
    .table = html_table,
    .chart = html_chart,
    .text = html_text,
};
