/* SPDX-License-Identifier: Apache-2.0 */
/* A path of the tree as a log that can be analysed: one call a node, with the
 * blocks that it allocates, frees and refers to. */
#ifndef DCP_REPLAY_PATH_H
#define DCP_REPLAY_PATH_H

#include "replay/trie.h"

struct dcp_path {
    struct dcp_node **nodes; /* from the root's child to the leaf */
    struct dcp_log log;      /* one call a node; arrays from malloc */
    uint32_t count, buffer_room;
    struct dcp_arena arena;
};

/* Fills in an empty path, and the `mate` of its frees. False when memory is
 * out; drop it all the same. */
bool dcp_path_make(struct dcp_path *path, struct dcp_trie *trie,
                   struct dcp_node *leaf);

void dcp_path_drop(struct dcp_path *path);

/* Ranges that do not overlap, by address. */
struct dcp_live {
    struct dcp_live_block {
        uint64_t base, bytes;
        uint32_t buffer;
    } *block;
    uint32_t count, room;
};

/* The range that `address` lies in, or NULL. */
struct dcp_live_block *dcp_live_at(const struct dcp_live *live,
                                   uint64_t address);

/* False when memory is out. */
bool dcp_live_put(struct dcp_live *live, uint64_t base, uint64_t bytes,
                  uint32_t buffer);

void dcp_live_take(struct dcp_live *live, struct dcp_live_block *block);

#endif
