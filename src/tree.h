/* SPDX-License-Identifier: Apache-2.0 */
/* An ordered set of nodes that lie in the user's own structs: a treap whose
 * shape depends on the keys alone, so that all ranks do the same work. */
#ifndef DCP_SRC_TREE_H
#define DCP_SRC_TREE_H

#include <stdint.h>

struct dcp_tree_node {
    struct dcp_tree_node *left, *right;
    uint64_t key, second; /* ordered by key, then by second */
};

struct dcp_tree {
    struct dcp_tree_node *root; /* NULL: empty */
};

/* Adds a node whose keys are set. No two nodes may have the same keys. */
void dcp_tree_insert(struct dcp_tree *tree, struct dcp_tree_node *node);

/* Takes a node out again. It must be in the tree. */
void dcp_tree_remove(struct dcp_tree *tree, struct dcp_tree_node *node);

/* The least node not below (key, second); the greatest not above; or NULL. */
struct dcp_tree_node *dcp_tree_ceil(const struct dcp_tree *tree, uint64_t key,
                                    uint64_t second);
struct dcp_tree_node *dcp_tree_floor(const struct dcp_tree *tree, uint64_t key,
                                     uint64_t second);

#endif
