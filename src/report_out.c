/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "src/report_out.h"

#include "src/report.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

const struct dcp_out_ops *const dcp_outs[] = {
    &dcp_out_text, &dcp_out_html, &dcp_out_json, &dcp_out_perfetto,
    &dcp_out_csv, NULL,
};

/* --- drawing ------------------------------------------------------------- */

void
dcp_out_begin(struct dcp_out *out, const char *title)
{
    if (out->ops->begin)
        out->ops->begin(out, title);
}

void
dcp_out_end(struct dcp_out *out)
{
    if (out->ops->end)
        out->ops->end(out);
    if (out->only && !out->found)
        dcp_die("no table %s; there are: %.*s", out->only,
                out->offered ? (int)strlen(out->offered) - 2 : 4,
                out->offered ? out->offered + 1 : "none");
    free(out->offered);
}

void
dcp_out_section(struct dcp_out *out, const char *key, const char *title,
                const char *rank)
{
    out->rank = rank;
    if (out->ops->section && !out->only)
        out->ops->section(out, key, title, rank);
}

void
dcp_out_fact(struct dcp_out *out, const char *key, const char *title,
             struct dcp_cell cell)
{
    if (out->ops->fact && !out->only && cell.kind != DCP_CELL_NONE)
        out->ops->fact(out, key, title, cell);
}

void
dcp_out_note(struct dcp_out *out, const char *format, ...)
{
    va_list ap;
    char *text;

    if (!out->ops->note || out->only)
        return;
    va_start(ap, format);
    if (vasprintf(&text, format, ap) < 0)
        dcp_die("out of memory");
    va_end(ap);
    out->ops->note(out, text);
    free(text);
}

/* Whether the thing of that key is to be drawn. */
static bool
wanted(struct dcp_out *out, const char *key)
{
    if (!out->only)
        return true;
    if (!strcmp(out->only, key)) {
        out->found = true;
        return true;
    }
    const char *before = out->offered ? out->offered : " ";
    char *word = dcp_xprintf(" %s ", key);
    if (!strstr(before, word)) {
        char *longer = dcp_xprintf("%s%s ", before, key);
        free(out->offered);
        out->offered = longer;
    }
    free(word);
    return false;
}

void
dcp_out_table(struct dcp_out *out, struct dcp_table *table)
{
    if (wanted(out, table->key) && out->ops->table && table->rows)
        out->ops->table(out, table);
    free(table->cells);
    table->cells = NULL;
    table->rows = table->room = 0;
}

void
dcp_out_chart(struct dcp_out *out, const struct dcp_chart *chart)
{
    if (wanted(out, chart->key) && out->ops->chart && chart->samples)
        out->ops->chart(out, chart);
}

void
dcp_out_lines(struct dcp_out *out, const char *key, const char *title,
              const char *language, const char *text, size_t length)
{
    if (out->ops->text && !out->only)
        out->ops->text(out, key, title, language, text, length);
}

void
dcp_out_slice(struct dcp_out *out, const struct dcp_slice *slice)
{
    if (out->ops->slice)
        out->ops->slice(out, slice);
}

void
dcp_out_process(struct dcp_out *out, unsigned process, const char *name)
{
    if (out->ops->process)
        out->ops->process(out, process, name);
}

/* --- cells --------------------------------------------------------------- */

struct dcp_cell
dcp_cell_none(void)
{
    return (struct dcp_cell){.kind = DCP_CELL_NONE};
}

struct dcp_cell
dcp_cell_text(const char *text)
{
    if (!text)
        return dcp_cell_none();
    return (struct dcp_cell){.kind = DCP_CELL_TEXT, .text = text};
}

struct dcp_cell
dcp_cell_count(uint64_t value)
{
    return (struct dcp_cell){.kind = DCP_CELL_COUNT, .value = value};
}

struct dcp_cell
dcp_cell_bytes(uint64_t value)
{
    return (struct dcp_cell){.kind = DCP_CELL_BYTES, .value = value};
}

struct dcp_cell
dcp_cell_ns(uint64_t value)
{
    if (value == 0)
        return dcp_cell_none();
    return (struct dcp_cell){.kind = DCP_CELL_NS, .value = value};
}

struct dcp_cell
dcp_cell_share(double part, double whole)
{
    if (whole <= 0)
        return dcp_cell_none();
    return (struct dcp_cell){.kind = DCP_CELL_SHARE, .real = part / whole};
}

struct dcp_cell
dcp_cell_ratio(double of, double to)
{
    if (of <= 0 || to <= 0)
        return dcp_cell_none();
    return (struct dcp_cell){.kind = DCP_CELL_RATIO, .real = of / to};
}

void
dcp_table_add(struct dcp_table *table, const struct dcp_cell *cells)
{
    size_t at = table->rows * table->width;

    if (at + table->width > table->room) {
        table->room = 2 * table->room + 16 * table->width;
        table->cells =
            dcp_xrealloc(table->cells, table->room, sizeof *table->cells);
    }
    memcpy(table->cells + at, cells, table->width * sizeof *cells);
    table->rows++;
}

/* --- how values are written ---------------------------------------------- */

static void
print_scaled(char buffer[64], double value, double step,
             const char *const *units, unsigned count)
{
    unsigned unit = 0;

    while (unit + 1 < count && value >= step * 0.9995) {
        value /= step;
        unit++;
    }
    if (unit == 0)
        snprintf(buffer, 64, "%.0f %s", value, units[0]);
    else
        snprintf(buffer, 64, "%.*f %s", value < 9.995 ? 2 : value < 99.95 ? 1
                 : 0, value, units[unit]);
}

const char *
dcp_cell_print(struct dcp_cell cell, char buffer[64])
{
    static const char *const sizes[] = {"B",   "KiB", "MiB", "GiB",
                                        "TiB", "PiB", "EiB"};
    static const char *const times[] = {"ns", "us", "ms", "s"};

    switch (cell.kind) {
    case DCP_CELL_TEXT:
        return cell.text;
    case DCP_CELL_BYTES:
        print_scaled(buffer, (double)cell.value, 1024, sizes, 7);
        break;
    case DCP_CELL_NS:
        print_scaled(buffer, (double)cell.value, 1000, times, 4);
        break;
    case DCP_CELL_SHARE:
        snprintf(buffer, 64, "%.1f %%", 100 * cell.real);
        break;
    case DCP_CELL_RATIO:
        snprintf(buffer, 64, "%.2f", cell.real);
        break;
    case DCP_CELL_COUNT:
        snprintf(buffer, 64, "%llu", (unsigned long long)cell.value);
        break;
    default:
        return "";
    }
    return buffer;
}

const char *
dcp_cell_print_raw(struct dcp_cell cell, char buffer[64])
{
    switch (cell.kind) {
    case DCP_CELL_TEXT:
        return cell.text;
    case DCP_CELL_BYTES:
    case DCP_CELL_NS:
    case DCP_CELL_COUNT:
        snprintf(buffer, 64, "%llu", (unsigned long long)cell.value);
        break;
    case DCP_CELL_SHARE:
    case DCP_CELL_RATIO:
        snprintf(buffer, 64, "%.6g", cell.real);
        break;
    default:
        return "";
    }
    return buffer;
}

/* Length of the UTF-8 character at `text`, 0: none. */
static unsigned
utf8_length(const unsigned char *text, size_t left)
{
    unsigned n = text[0] < 0x80 ? 1 : text[0] < 0xc2 ? 0 : text[0] < 0xe0 ? 2
               : text[0] < 0xf0 ? 3 : text[0] < 0xf5 ? 4 : 0;

    if (n > left)
        return 0;
    for (unsigned i = 1; i < n; i++)
        if ((text[i] & 0xc0) != 0x80)
            return 0;
    if ((text[0] == 0xe0 && text[1] < 0xa0) ||
        (text[0] == 0xed && text[1] > 0x9f) ||
        (text[0] == 0xf0 && text[1] < 0x90) ||
        (text[0] == 0xf4 && text[1] > 0x8f))
        return 0;
    return n;
}

void
dcp_json_string(FILE *file, const char *text, size_t length)
{
    for (size_t i = 0; i < length;) {
        unsigned char c = (unsigned char)text[i];
        unsigned n = utf8_length((const unsigned char *)text + i, length - i);
        if (c == '"' || c == '\\')
            fprintf(file, "\\%c", c);
        else if (c == '\n')
            fputs("\\n", file);
        else if (c < 0x20 || c == 0x7f || c == '<' || c == '&')
            fprintf(file, "\\u%04x", c);
        else if (n == 0)
            fputs("\\ufffd", file);
        else
            fwrite(text + i, 1, n, file);
        i += n ? n : 1;
    }
}

void
dcp_html_string(FILE *file, const char *text, size_t length)
{
    for (size_t i = 0; i < length;) {
        unsigned n = utf8_length((const unsigned char *)text + i, length - i);
        switch (text[i]) {
        case '<': fputs("&lt;", file); break;
        case '>': fputs("&gt;", file); break;
        case '&': fputs("&amp;", file); break;
        case '"': fputs("&quot;", file); break;
        case '\0': fputs("\xef\xbf\xbd", file); break;
        default:
            if (n)
                fwrite(text + i, 1, n, file);
            else
                fputs("\xef\xbf\xbd", file);
        }
        i += n ? n : 1;
    }
}
