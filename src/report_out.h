/* SPDX-License-Identifier: Apache-2.0 */
/* What views draw with. A view says what there is (facts, tables, charts,
 * texts, slices of time); an output says how it looks. Slots that an output
 * leaves out draw nothing. */
#ifndef DCP_SRC_REPORT_OUT_H
#define DCP_SRC_REPORT_OUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum dcp_cell_kind {
    DCP_CELL_NONE,
    DCP_CELL_TEXT,
    DCP_CELL_COUNT,
    DCP_CELL_BYTES,
    DCP_CELL_NS,
    DCP_CELL_SHARE, /* 0 to 1 */
    DCP_CELL_RATIO, /* how many times */
};

/* A value with its meaning. Texts are not copied. */
struct dcp_cell {
    enum dcp_cell_kind kind;
    union {
        const char *text;
        uint64_t value;
        double real;
    };
};

struct dcp_column {
    const char *key, *title; /* key: for programs; title: for people */
    bool below; /* long text: on lines of its own below the row */
};

struct dcp_table {
    const char *key, *title;
    const struct dcp_column *columns;
    unsigned width;
    struct dcp_cell *cells; /* row by row */
    size_t rows, room;
};

/* Values over time, or over iteration numbers. */
struct dcp_chart {
    const char *key, *title, *rank;
    enum { DCP_CHART_AREAS, DCP_CHART_POINTS } look;
    enum dcp_cell_kind x_kind, y_kind; /* NS or COUNT; BYTES or NS */
    unsigned areas;  /* the first ones are stacked; the rest are lines */
    unsigned series;
    const char *const *names;
    size_t samples;
    uint64_t *x, *y; /* y: sample by sample; DCP_NO_VALUE: none */
    double start_us; /* of x 0, on the clock of slices */
    unsigned mark_count;
    const struct dcp_mark {
        uint64_t x;
        const char *text;
    } *marks;
};
#define DCP_NO_VALUE UINT64_MAX

/* Something that took time. */
struct dcp_slice {
    unsigned process;  /* number of the trace */
    const char *track; /* a row of slices that do not overlap */
    const char *name;
    double begin_us, length_us;
    const char *detail; /* or NULL */
};

struct dcp_out;

struct dcp_out_ops {
    const char *name;
    bool whole_page; /* summary, memory and ops belong together */
    void (*begin)(struct dcp_out *out, const char *title);
    void (*end)(struct dcp_out *out);
    /* A heading; what follows belongs to it. `rank` NULL: to all. */
    void (*section)(struct dcp_out *out, const char *key, const char *title,
                    const char *rank);
    void (*fact)(struct dcp_out *out, const char *key, const char *title,
                 struct dcp_cell cell);
    void (*note)(struct dcp_out *out, const char *text);
    void (*table)(struct dcp_out *out, const struct dcp_table *table);
    void (*chart)(struct dcp_out *out, const struct dcp_chart *chart);
    /* Lines as they are. language: "ir", "json", "diff" or "text". */
    void (*text)(struct dcp_out *out, const char *key, const char *title,
                 const char *language, const char *text, size_t length);
    void (*slice)(struct dcp_out *out, const struct dcp_slice *slice);
    /* The name of a process of slices and charts. */
    void (*process)(struct dcp_out *out, unsigned process, const char *name);
};

struct dcp_out {
    const struct dcp_out_ops *ops;
    FILE *file;
    const char *only; /* key of the only table or chart to draw, NULL: all */
    bool found;       /* it was there */
    char *offered;    /* keys that were there instead, for the message */
    bool bare;        /* text: no headings, for a single raw text */
    const char *rank; /* what the section at hand is about, or NULL */
    void *state;      /* the output's own */
    /* the output's own place in the page */
    unsigned sections, items;
};

/* The outputs, in order; NULL ends the list. */
extern const struct dcp_out_ops dcp_out_text, dcp_out_html, dcp_out_json,
    dcp_out_perfetto, dcp_out_csv;
extern const struct dcp_out_ops *const dcp_outs[];

/* Draw, where the output knows how. */
/* dcp_out_end dies when the only table to draw was not there. */
void dcp_out_begin(struct dcp_out *out, const char *title);
void dcp_out_end(struct dcp_out *out);
void dcp_out_section(struct dcp_out *out, const char *key, const char *title,
                     const char *rank);
void dcp_out_fact(struct dcp_out *out, const char *key, const char *title,
                  struct dcp_cell cell);
void dcp_out_note(struct dcp_out *out, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Draws the table unless it is empty, then frees its cells. */
void dcp_out_table(struct dcp_out *out, struct dcp_table *table);
void dcp_out_chart(struct dcp_out *out, const struct dcp_chart *chart);
void dcp_out_lines(struct dcp_out *out, const char *key, const char *title,
                   const char *language, const char *text, size_t length);
void dcp_out_slice(struct dcp_out *out, const struct dcp_slice *slice);
void dcp_out_process(struct dcp_out *out, unsigned process, const char *name);

/* Cells. A time or a ratio that is not known is DCP_CELL_NONE. */
struct dcp_cell dcp_cell_text(const char *text);
struct dcp_cell dcp_cell_count(uint64_t value);
struct dcp_cell dcp_cell_bytes(uint64_t value);
struct dcp_cell dcp_cell_ns(uint64_t value);
struct dcp_cell dcp_cell_share(double part, double whole);
struct dcp_cell dcp_cell_ratio(double of, double to);
struct dcp_cell dcp_cell_none(void);

/* Adds a row of table->width cells. */
void dcp_table_add(struct dcp_table *table, const struct dcp_cell *cells);

/* A cell as people read it: "1.50 GiB", "3.2 ms", "97.4 %". */
const char *dcp_cell_print(struct dcp_cell cell, char buffer[64]);

/* A cell as programs read it: plain numbers, times in ns, sizes in bytes. */
const char *dcp_cell_print_raw(struct dcp_cell cell, char buffer[64]);

/* Writes text as the inside of a JSON string; bytes that are no UTF-8 become
 * U+FFFD. Safe inside HTML too ('<' and '&' are escaped). */
void dcp_json_string(FILE *file, const char *text, size_t length);

/* Writes text with HTML's own characters escaped. */
void dcp_html_string(FILE *file, const char *text, size_t length);

/* A name as people read it: demangled where the machine's C++ library is
 * there to do it. The result lives until the end. */
const char *dcp_demangle(const char *name);

#endif
