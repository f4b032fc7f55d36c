/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "src/tree.h"

#include <stddef.h>

/* The heap order of the treap: as good as random, and the same everywhere. */
static uint64_t
priority(const struct dcp_tree_node *node)
{
    uint64_t x = node->key * 0x9e3779b97f4a7c15u ^ node->second;

    x = (x ^ (x >> 31)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static int
below(const struct dcp_tree_node *node, uint64_t key, uint64_t second)
{
    return node->key < key || (node->key == key && node->second < second);
}

void
dcp_tree_insert(struct dcp_tree *tree, struct dcp_tree_node *node)
{
    struct dcp_tree_node **at = &tree->root, *rest;
    uint64_t mine = priority(node);

    while (*at && priority(*at) >= mine)
        at = below(*at, node->key, node->second) ? &(*at)->right
                                                 : &(*at)->left;
    rest = *at;
    *at = node;
    /* split what hung here into the node's two sides */
    struct dcp_tree_node **low = &node->left, **high = &node->right;
    while (rest) {
        if (below(rest, node->key, node->second)) {
            *low = rest;
            low = &rest->right;
            rest = *low;
        } else {
            *high = rest;
            high = &rest->left;
            rest = *high;
        }
    }
    *low = *high = NULL;
}

void
dcp_tree_remove(struct dcp_tree *tree, struct dcp_tree_node *node)
{
    struct dcp_tree_node **at = &tree->root;

    while (*at != node)
        at = below(*at, node->key, node->second) ? &(*at)->right
                                                 : &(*at)->left;
    /* merge the node's two sides in its place */
    struct dcp_tree_node *low = node->left, *high = node->right;
    while (low && high) {
        if (priority(low) >= priority(high)) {
            *at = low;
            at = &low->right;
            low = *at;
        } else {
            *at = high;
            at = &high->left;
            high = *at;
        }
    }
    *at = low ? low : high;
}

struct dcp_tree_node *
dcp_tree_ceil(const struct dcp_tree *tree, uint64_t key, uint64_t second)
{
    struct dcp_tree_node *at = tree->root, *best = NULL;

    while (at) {
        if (below(at, key, second)) {
            at = at->right;
        } else {
            best = at;
            at = at->left;
        }
    }
    return best;
}

struct dcp_tree_node *
dcp_tree_floor(const struct dcp_tree *tree, uint64_t key, uint64_t second)
{
    struct dcp_tree_node *at = tree->root, *best = NULL;

    while (at) {
        if (below(at, key, second) ||
            (at->key == key && at->second == second)) {
            best = at;
            at = at->right;
        } else {
            at = at->left;
        }
    }
    return best;
}
