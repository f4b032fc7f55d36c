/* SPDX-License-Identifier: Apache-2.0 */
/* dcprel-report: what all its parts share. The tool runs offline and may end
 * the process: bad input and lack of memory are exit code 2.
 *
 * A command is a view (report_view_*.c) that reads the model (report_model.h,
 * report_timeline.h: what the traces say, computed once) and draws it through
 * an output (report_out.h). A new view is a row in report_main.c; a new output
 * a file and a row in report_out.c. */
#ifndef DCP_SRC_REPORT_H
#define DCP_SRC_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct dcp_model;
struct dcp_out;

struct dcp_report_options {
    const char *paths[2]; /* a directory or file each; NULL: not given */
    const char *pass;     /* ir: show the text after this pass */
    const char *table;    /* show this table only */
    uint64_t graph;       /* ir: this graph only; 0: all */
    long rank;            /* this rank only; -1: all */
    unsigned top;         /* rows of long tables; 0: all */
    bool side_by_side;    /* diff */
};

/* The views. Each draws sections into `out`; for several ranks side by side
 * where they are comparable. */
void dcp_view_summary(const struct dcp_model *model, struct dcp_out *out,
                      const struct dcp_report_options *options);
void dcp_view_memory(const struct dcp_model *model, struct dcp_out *out,
                     const struct dcp_report_options *options);
void dcp_view_ops(const struct dcp_model *model, struct dcp_out *out,
                  const struct dcp_report_options *options);
void dcp_view_ir(const struct dcp_model *model, struct dcp_out *out,
                 const struct dcp_report_options *options);

/* Compares options->paths: two traces (files or directories), or two files of
 * IR text. Reads them itself. */
void dcp_view_diff(struct dcp_out *out,
                   const struct dcp_report_options *options);

/* dcprel-report config ...: see report_config.c. Returns the exit code. */
int dcp_report_config(int argc, char **argv);

/* Nothing is printed to stderr (for tests). */
extern bool dcp_quiet;

/* Prints "dcprel-report: message" to stderr and exits with code 2. */
void dcp_die(const char *format, ...)
    __attribute__((format(printf, 1, 2), noreturn));

/* The same without the exit. */
void dcp_complain(const char *format, ...)
    __attribute__((format(printf, 1, 2)));

/* Memory or the end: never NULL. `count` items of `size` bytes; the rest of a
 * grown array is not initialised. */
void *dcp_xcalloc(size_t count, size_t size);
void *dcp_xrealloc(void *old, size_t count, size_t size);
char *dcp_xstrndup(const char *text, size_t length);

/* Grows an array of `size`-byte items so that item `count` exists. */
void *dcp_xgrow(void *array, size_t count, size_t *room, size_t size);

/* printf into memory; the caller frees. */
char *dcp_xprintf(const char *format, ...)
    __attribute__((format(printf, 1, 2)));

/* Shows how far long work has come, on a terminal's stderr only, not before
 * half a second has gone; `total` 0 wipes the line. */
void dcp_progress(const char *what, uint64_t done, uint64_t total);

/* The candidate closest in spelling to `word`, or NULL when none is near. */
const char *dcp_nearest(const char *word, const char *const *candidates,
                        size_t count);

#endif
