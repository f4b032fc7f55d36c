/* SPDX-License-Identifier: Apache-2.0 */
/* What the heap_*.c files share; nobody else includes it.
 *
 *   chunk   one frame mapped at one run of pages, cut into pieces
 *   piece   live, or free and then in a bin or in a tree
 *   owner   whose work must be over before a free piece is used: a stream
 *   bin     an owner's free pieces of one exact size, last in first out
 *   tree    an owner's other free pieces of one kind, ordered by size
 *
 * The hot path only pops and pushes bins. A miss empties the owner's bins into
 * its trees, where neighbours become one piece, and takes the best fit.
 *
 * Each free gets a number (seq). A piece may be used by every stream once the
 * owner's work is known to be done up to that number: because an event
 * recorded later has completed (owner.done) or because the device was seen
 * idle (heap.idle). All fields are guarded by heap.lock. */
#ifndef DCP_INTERCEPT_HEAP_CORE_H
#define DCP_INTERCEPT_HEAP_CORE_H

#include "intercept/frame.h"
#include "intercept/heap.h"
#include "src/arena.h"
#include "src/lock.h"

enum dcp_heap_kind {
    DCP_HEAP_SMALL,
    DCP_HEAP_BIG,
    DCP_HEAP_SMALL_HOST, /* on host frames: used when nothing else is left */
    DCP_HEAP_BIG_HOST,
    DCP_HEAP_KINDS,
};

enum dcp_piece_state { DCP_PIECE_LIVE, DCP_PIECE_BIN, DCP_PIECE_TREE };

struct dcp_piece {
    CUdeviceptr base;
    size_t bytes;               /* rounded */
    size_t asked;
    uint64_t id;
    uint64_t seq;               /* number of the free; 0: never used, or idle */
    struct dcp_owner *owner;
    struct dcp_chunk *chunk;
    struct dcp_bin *bin;        /* of its size, that it was in last; or NULL */
    struct dcp_piece *prev, *next;  /* neighbours in the chunk */
    struct dcp_piece *left, *right; /* tree; right: next in a bin or spare */
    uint8_t state;              /* enum dcp_piece_state */
    uint8_t tag;                /* which pool the block was asked from */
};

enum { DCP_CHUNK_LEVELS = 6 };

struct dcp_chunk {
    CUdeviceptr base;
    size_t bytes;
    struct dcp_frame frame;
    struct dcp_chunk *prev, *next;
    size_t used;                /* bytes of live pieces */
    uint8_t kind;               /* enum dcp_heap_kind */
    uint8_t shift;              /* of the smallest piece */
    uint8_t levels;
    /* Where pieces start: by unit, and as a bitmap whose words are summed up
     * in the bitmap of the next level. */
    struct dcp_piece **at;
    uint64_t *starts[DCP_CHUNK_LEVELS];
    size_t map_bytes;
};

struct dcp_bin {
    size_t bytes;
    struct dcp_owner *owner;
    struct dcp_piece *head;
    struct dcp_bin *next;       /* in the owner's list, when listed */
    uint8_t kind;
    bool listed;                /* since the last flush something was pushed */
};

struct dcp_owner {
    uint64_t key;               /* of the stream; 0: nobody's */
    CUstream stream;
    struct dcp_owner *next, *chain; /* all; those with the same hash */
    uint64_t last;              /* number of its last free */
    uint64_t done;              /* frees up to here are over */
    CUevent event;
    uint64_t mark;              /* what a pending event stands for; 0: none */
    struct dcp_bin *bins[DCP_HEAP_KINDS]; /* listed ones */
    struct dcp_piece *tree[DCP_HEAP_KINDS];
};

struct dcp_heap {
    struct dcp_lock lock;
    bool on, tried;
    struct dcp_heap_options options;
    size_t page, large;
    uint64_t seq, idle;         /* last free; frees known to be over */
    uint64_t next_id;
    struct dcp_owner *owners;   /* all */
    struct dcp_owner *hash[64];
    struct dcp_owner *nobody;   /* owns what every stream may use */
    struct dcp_owner *limbo;    /* owns what waits for an idle device */
    struct dcp_owner *recent;   /* the last one looked up */
    struct dcp_chunk *chunks;
    size_t used, used_peak;
    size_t compact_used;        /* live bytes when waiting was last earned */
    unsigned compact_left;
    uint64_t allocs, frees;
    size_t tag_used[16], tag_peak[16];
    dcp_heap_listener *listener;
    atomic_uintptr_t context;   /* the one we serve; 0: none yet */
    struct dcp_arena arena;
};

extern struct dcp_heap dcp_heap;

/* heap_tree.c: the order is by bytes, then by address. */
void dcp_size_tree_add(struct dcp_piece **root, struct dcp_piece *piece);
void dcp_size_tree_remove(struct dcp_piece **root, struct dcp_piece *piece);
/* The first piece at or after (bytes, base); NULL for none. */
struct dcp_piece *dcp_size_tree_from(struct dcp_piece *root, size_t bytes,
                                CUdeviceptr base);

/* heap_chunk.c */
/* log2 of what pieces of a kind are multiples of. */
static inline unsigned
dcp_heap_shift(enum dcp_heap_kind kind)
{
    return kind == DCP_HEAP_SMALL || kind == DCP_HEAP_SMALL_HOST ? 9 : 12;
}
CUresult dcp_chunk_new(size_t bytes, enum dcp_heap_kind kind,
                       struct dcp_owner *owner, struct dcp_chunk **out);
/* Gives the frame back; every piece must be in a tree. On an error the chunk
 * stays as it is. */
CUresult dcp_chunk_drop(struct dcp_chunk *chunk);
/* Makes a piece of `bytes` out of the tree piece, starting at a multiple of
 * `align`; what is left over goes back into the tree. The result is out of
 * the tree and in no other place. */
struct dcp_piece *dcp_piece_carve(struct dcp_piece *piece, size_t bytes,
                                  size_t align);
/* Puts a free piece into its owner's tree, with the neighbours it can join;
 * returns the joined piece. */
struct dcp_piece *dcp_piece_shelve(struct dcp_piece *piece);
/* The piece that starts at, or that holds, `address`; NULL for none. */
struct dcp_piece *dcp_piece_at(CUdeviceptr address);
struct dcp_piece *dcp_piece_around(CUdeviceptr address);
void dcp_chunk_forget(void);

/* heap_owner.c */
bool dcp_owner_start(void);
struct dcp_owner *dcp_owner_find(CUstream stream);
/* The owner of a normalised stream; NULL when memory is out. */
static inline struct dcp_owner *
dcp_owner_get(CUstream stream)
{
    struct dcp_owner *owner = dcp_heap.recent;

    if (__builtin_expect(owner && owner->key == (uint64_t)(uintptr_t)stream, 1))
        return owner;
    return dcp_owner_find(stream);
}
/* The stream is about to be destroyed: its handle may come back. */
void dcp_owner_retire(CUstream stream);
/* Learns from the driver how far the owner's stream has come. */
void dcp_owner_poll(struct dcp_owner *owner);
/* `gone`: the events went with their context. */
void dcp_owner_forget(bool gone);
/* True when every stream may use the free piece. */
static inline bool
dcp_piece_is_idle(const struct dcp_piece *piece)
{
    return piece->seq <= dcp_heap.idle || piece->seq <= piece->owner->done;
}

/* heap_bin.c */
struct dcp_bin *dcp_bin_find(struct dcp_owner *owner, size_t bytes);
/* Puts a free piece of a device chunk into its owner's bin; into the tree when
 * there is no memory for a bin. */
void dcp_bin_push(struct dcp_piece *piece, enum dcp_heap_kind kind);
void dcp_bin_flush(struct dcp_owner *owner, enum dcp_heap_kind kind);
void dcp_bin_flush_all(void);
void dcp_bin_forget(void);

/* heap_grow.c: the way of a miss. Enters and leaves with the lock held, but
 * may drop it in between. */
CUresult dcp_heap_miss(struct dcp_owner *owner, size_t bytes,
                       enum dcp_heap_kind kind, struct dcp_piece **out);
/* Makes idle what is idle, whoever owned it, and joins it. */
void dcp_heap_settle(void);
/* Waits for the device without the lock; afterwards all frees made before are
 * over. NOT_PERMITTED while a capture is open. */
CUresult dcp_heap_wait(void);
/* Gives back unused idle frames until `want` bytes were; `host` says which. */
size_t dcp_heap_shed(size_t want, bool host);
/* Gives back the chunk's frame if it holds no live block and is idle; returns
 * the bytes. */
size_t dcp_heap_drop(struct dcp_chunk *chunk);
/* Bytes of frames without a live block. */
size_t dcp_heap_unused(bool host);

/* heap_plan.c: the planned range; these take no lock. */
bool dcp_plan_find(CUdeviceptr address, struct dcp_block *out);
CUresult dcp_plan_free(CUdeviceptr base, CUstream stream);
size_t dcp_plan_used(void);
void dcp_plan_each(void (*visit)(const struct dcp_block *, void *), void *user);
void dcp_plan_each_range(void (*visit)(CUdeviceptr base, size_t bytes, void *),
                         void *user);
void dcp_plan_forget(void);

/* True when the listener holds calls back that the driver does not know of. */
bool dcp_heap_held(void);

#endif
