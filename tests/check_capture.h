/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of check_capture share. */
#ifndef DCP_TESTS_CHECK_CAPTURE_H
#define DCP_TESTS_CHECK_CAPTURE_H

#include "src/arena.h"
#include "src/ir.h"

#include "capture/access.h"
#include "capture/call.h"
#include "capture/period.h"
#include "tests/training_log.h"

#include <check.h>

enum { PROGRAMS = 20 };

/* Made-up programs and what is to be found in them. */
struct program {
    const char *name;
    struct training t;
    uint32_t cycle;  /* 0: none */
    uint32_t states; /* by parameter */
};
extern const struct program programs[PROGRAMS];

/* The graph of the last full iteration but one (all its frees are there). */
struct dcp_graph *lift_one(const struct dcp_log *log,
                           const struct dcp_access_table *access,
                           struct dcp_period *p, struct dcp_arena *arena);

/* Fail unless the graph is valid, and prints and parses to itself. */
void check_graph(const struct dcp_graph *graph);

/* Buffers by role; printed too where SHOW is set. */
void count_roles(const char *name, const struct dcp_graph *graph,
                 uint32_t *counts);

/* The text of calls [first, last), from malloc. `bytes` may be NULL. */
char *print_log(const struct dcp_log *log, uint32_t first, uint32_t last,
                unsigned flags, const struct dcp_access_table *access,
                size_t *bytes);

void add_text(Suite *s);
void add_period(Suite *s);
void add_lift(Suite *s);
void add_access(Suite *s);
void add_recorded(Suite *s);

#endif
