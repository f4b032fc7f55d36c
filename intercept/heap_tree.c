/* SPDX-License-Identifier: Apache-2.0 */
/* Free pieces in order of size and address: a treap, whose priorities are a
 * hash of the address, so that equal heaps have equal trees. */
#include "config.h"

#include "intercept/heap_core.h"

static uint64_t
priority(const struct dcp_piece *piece)
{
    return (piece->base >> 9) * 0x9e3779b97f4a7c15u;
}

static bool
is_before(const struct dcp_piece *piece, size_t bytes, CUdeviceptr base)
{
    return piece->bytes < bytes ||
           (piece->bytes == bytes && piece->base < base);
}

void
dcp_size_tree_add(struct dcp_piece **root, struct dcp_piece *piece)
{
    uint64_t rank = priority(piece);
    struct dcp_piece *at, **left = &piece->left, **right = &piece->right;

    while (*root && priority(*root) >= rank)
        root = is_before(*root, piece->bytes, piece->base) ? &(*root)->right
                                                           : &(*root)->left;
    at = *root;
    *root = piece;
    while (at) {
        if (is_before(at, piece->bytes, piece->base)) {
            *left = at;
            left = &at->right;
            at = at->right;
        } else {
            *right = at;
            right = &at->left;
            at = at->left;
        }
    }
    *left = *right = NULL;
}

void
dcp_size_tree_remove(struct dcp_piece **root, struct dcp_piece *piece)
{
    struct dcp_piece *left = piece->left, *right = piece->right;

    while (*root != piece)
        root = is_before(*root, piece->bytes, piece->base) ? &(*root)->right
                                                           : &(*root)->left;
    while (left && right) {
        if (priority(left) >= priority(right)) {
            *root = left;
            root = &left->right;
            left = left->right;
        } else {
            *root = right;
            root = &right->left;
            right = right->left;
        }
    }
    *root = left ? left : right;
    piece->left = piece->right = NULL;
}

struct dcp_piece *
dcp_size_tree_from(struct dcp_piece *root, size_t bytes, CUdeviceptr base)
{
    struct dcp_piece *best = NULL;

    while (root) {
        if (is_before(root, bytes, base)) {
            root = root->right;
        } else {
            best = root;
            root = root->left;
        }
    }
    return best;
}
