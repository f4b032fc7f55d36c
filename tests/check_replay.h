/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of check_replay share: calls as the program makes them, on
 * the driver of fake_graph.h. */
#ifndef DCP_TESTS_CHECK_REPLAY_H
#define DCP_TESTS_CHECK_REPLAY_H

#include "capture/record.h"
#include "replay/trie.h"
#include "tests/fake_graph.h"

#include <check.h>

#define DEVICE(n) ((uint64_t)0xd0000000000 + (uint64_t)(n) * 0x10000)

/* Kernels to launch: one 8-byte parameter; none; one that no graph takes; one
 * of unknown layout. */
extern struct fake_kernel kernel_a, kernel_b, kernel_none, kernel_eager,
    kernel_unknown;

/* The driver and the heap, with nothing in them. */
void replay_start(void);

/* Views; what they point to is overwritten by the next call of the same. */
struct dcp_view launch_of(const struct fake_kernel *kernel, uint64_t word);
struct dcp_view copy_of(uint64_t to, uint64_t from, uint64_t bytes);
struct dcp_view upload_of(uint64_t to, const void *from, uint64_t bytes,
                          enum dcp_place place);
struct dcp_view download_of(void *to, uint64_t from, uint64_t bytes);
struct dcp_view fill_of(uint64_t to, uint32_t value, uint64_t width,
                        unsigned element);
struct dcp_view alloc_of(uint64_t bytes);
struct dcp_view free_of(uint64_t address);
struct dcp_view wait_of(void);

/* Adds a path of such calls below `from`; the last node. */
struct dcp_node *path_add(struct dcp_trie *trie, struct dcp_node *from,
                          const struct dcp_view *views, uint32_t count);

/* A pinned block of the driver's. */
void *pinned(size_t bytes);

/* Numbers that are the same in each run. */
uint32_t dice(uint64_t *state, uint32_t sides);

void add_trie(Suite *s);
void add_path(Suite *s);
void add_plan(Suite *s);
void add_turn(Suite *s);
void add_lower(Suite *s);
void add_record(Suite *s);
void add_view(Suite *s);

#endif
