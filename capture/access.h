/* SPDX-License-Identifier: Apache-2.0 */
/* Which pointers of a kernel are read and which are written, found by
 * experiment: a few eager launches of each kernel are surrounded by hashes of
 * the blocks that they refer to. A block that changed was written. A fresh
 * block (allocated just before, not yet written) is first filled with a
 * pattern, so that writing what was there by chance shows, and a kernel that
 * only ever gets fresh blocks in a slot cannot be reading it.
 *
 * Nothing here changes what the program computes: only blocks whose contents
 * are undefined are filled, and all work goes into the launch's own stream.
 * Not thread-safe: the caller holds the session lock. */
#ifndef DCP_CAPTURE_ACCESS_H
#define DCP_CAPTURE_ACCESS_H

#include "src/arena.h"
#include "src/ir.h"
#include "src/status.h"

#include "capture/call.h"

/* --- the table of decisions (access.c) ----------------------------------- */

struct dcp_access_entry;

/* By kernel id and slot; all zero is an empty table. */
struct dcp_access_table {
    struct dcp_arena arena;
    struct dcp_access_entry *entries;
    uint32_t places, count;
};

/* What one examined launch showed about one slot. */
enum dcp_access_sight {
    DCP_SIGHT_CHANGED = 1, /* the block's hash changed */
    DCP_SIGHT_FRESH = 2,   /* its contents were undefined before */
    DCP_SIGHT_SHARED = 4,  /* another slot refers to the same block, so the
                              change may be the other's doing */
};

/* Adds what was seen. DCP_NOMEM leaves the table as it was. */
enum dcp_status dcp_access_note(struct dcp_access_table *table,
                                uint32_t kernel, uint32_t slot,
                                unsigned sight);

/* Sets a decision outright (DCP_READ, DCP_WRITE or both): known kernels, and
 * logs read from text. DCP_NOMEM. */
enum dcp_status dcp_access_set(struct dcp_access_table *table, uint32_t kernel,
                               uint32_t slot, uint8_t access);

/* Bits of enum dcp_access. A slot that was not seen often enough to tell gets
 * DCP_READ | DCP_WRITE | DCP_ASSUMED. `table` may be NULL. */
uint8_t dcp_access_of(const struct dcp_access_table *table, uint32_t kernel,
                      uint32_t slot);

/* How many launches showed this slot (capped at 255). */
uint32_t dcp_access_seen(const struct dcp_access_table *table, uint32_t kernel,
                         uint32_t slot);

/* Calls visit for each decided slot, by kernel and then slot. DCP_NOMEM. */
enum dcp_status dcp_access_each(const struct dcp_access_table *table,
                                void (*visit)(void *user, uint32_t kernel,
                                              uint32_t slot, uint8_t access),
                                void *user);

void dcp_access_release(struct dcp_access_table *table);

/* --- the experiment (access_watch.c) ------------------------------------- */

struct dcp_access_block {
    uint64_t id, base, bytes;
};

/* How the experiment reaches the GPU; access_gpu.h has the real one. A false
 * answer of hash or fill ends the experiment on this launch. */
struct dcp_access_ops {
    /* The live block that holds `address`. */
    bool (*find)(void *user, uint64_t address, struct dcp_access_block *out);
    /* Enqueues: result `index` := a hash of the bytes. */
    bool (*hash)(void *user, uint64_t stream, uint64_t address, uint64_t bytes,
                 uint32_t index);
    /* Enqueues: fills the bytes with a pattern. */
    bool (*fill)(void *user, uint64_t stream, uint64_t address,
                 uint64_t bytes);
    /* Waits for `stream` and reads `count` results from index 0 on. */
    bool (*read)(void *user, uint64_t stream, uint64_t *results,
                 uint32_t count);
    void *user;
};

struct dcp_access_limits {
    uint64_t launch_bytes; /* hashed around one launch at most; 0: 1 GiB */
    uint64_t total_bytes;  /* hashed in all; 0: 256 GiB (0.2 s of an H200) */
    uint32_t launches;     /* examined in all; 0: 4,096 */
    uint32_t each;         /* examined of each kernel; 0: 6 */
};

struct dcp_access_watch;

/* NULL when memory is out. `ops` is copied; `table` must outlive the watch. */
struct dcp_access_watch *
dcp_access_watch_create(struct dcp_access_table *table,
                        const struct dcp_access_ops *ops,
                        const struct dcp_access_limits *limits);
void dcp_access_watch_destroy(struct dcp_access_watch *watch);

/* Around each eager call of the program, in order of issue, no stream being in
 * capture: begin before, end after (with `ok` false when the driver refused
 * it). Begin must see every launch, copy, fill and opaque call; end may be left
 * out where begin returned false, but for allocations: fresh blocks are known
 * from them alone (memory.address is looked up). Both are quick for calls that
 * are not examined. An examined launch is waited for in end, which must come
 * before any other call. `call` is a recorded call with its refs and, for a
 * launch, its packed parameters; the buffer numbers of the refs do not
 * matter. */
bool dcp_access_begin(struct dcp_access_watch *watch,
                      const struct dcp_call *call);
void dcp_access_end(struct dcp_access_watch *watch,
                    const struct dcp_call *call, bool ok);

/* True when the budget is used up, or an operation failed: the experiment is
 * over and begin returns false for ever. */
bool dcp_access_done(const struct dcp_access_watch *watch);

#endif
