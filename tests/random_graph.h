/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs for tests: with every kind of node and value, or in the shape of an
 * iteration of training. Deterministic by `seed`. */
#ifndef DCP_TESTS_RANDOM_GRAPH_H
#define DCP_TESTS_RANDOM_GRAPH_H

#include "src/ir.h"

/* Any values at all: it can be printed and parsed, and is likely broken. */
struct dcp_graph *random_graph(uint64_t seed, uint32_t nodes);

/* Valid: forward with activations that live until backward, short-lived
 * workspaces, gradients until the update; about `nodes` nodes over `streams`
 * streams, each with work of its own. */
struct dcp_graph *training_graph(uint64_t seed, uint32_t nodes,
                                 uint32_t streams);

/* Valid: lives that begin and end at random, at most `live` at once. */
struct dcp_graph *chaos_graph(uint64_t seed, uint32_t nodes, uint32_t live);

#endif
