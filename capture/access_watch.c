/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "capture/access.h"

#include "src/arena.h"
#include "src/log.h"

#include "capture/kernel.h"

#include <string.h>

enum {
    SUBJECTS_MAX = 64, /* distinct blocks of one launch */
    FRESH_MAX = 64,    /* blocks allocated since the last work */
};

/* A block that the examined launch refers to. */
struct subject {
    struct dcp_access_block block;
    uint32_t refs; /* slots that point into it */
    bool fresh;
    uint64_t before, after;
};

struct dcp_access_watch {
    struct dcp_arena arena;
    struct dcp_access_table *table;
    struct dcp_access_ops ops;
    struct dcp_access_limits limits;
    uint64_t bytes;     /* hashed so far */
    uint32_t launches;  /* examined so far */
    uint32_t *examined; /* by kernel id */
    uint32_t examined_room;
    bool done;

    uint64_t fresh[FRESH_MAX]; /* ids; blocks that nothing can have written */
    uint32_t fresh_count;

    struct subject subjects[SUBJECTS_MAX]; /* of the launch under way */
    uint32_t subject_count;
};

struct dcp_access_watch *
dcp_access_watch_create(struct dcp_access_table *table,
                        const struct dcp_access_ops *ops,
                        const struct dcp_access_limits *limits)
{
    struct dcp_arena arena = {0};
    struct dcp_access_watch *watch = dcp_arena_alloc(&arena, sizeof *watch);

    if (!watch)
        return NULL;
    watch->arena = arena;
    watch->table = table;
    watch->ops = *ops;
    if (limits)
        watch->limits = *limits;
    if (!watch->limits.launch_bytes)
        watch->limits.launch_bytes = (uint64_t)1 << 30;
    if (!watch->limits.total_bytes)
        watch->limits.total_bytes = (uint64_t)256 << 30;
    if (!watch->limits.launches)
        watch->limits.launches = 4096;
    if (!watch->limits.each)
        watch->limits.each = 6;
    return watch;
}

void
dcp_access_watch_destroy(struct dcp_access_watch *watch)
{
    if (!watch)
        return;
    struct dcp_arena arena = watch->arena;
    dcp_arena_release(&arena);
}

bool
dcp_access_done(const struct dcp_access_watch *watch)
{
    return watch->done;
}

static bool
is_fresh(const struct dcp_access_watch *watch, uint64_t id)
{
    for (uint32_t i = 0; i < watch->fresh_count; i++)
        if (watch->fresh[i] == id)
            return true;
    return false;
}

/* How often the kernel was examined; NULL when memory is out. */
static uint32_t *
times_examined(struct dcp_access_watch *watch, uint32_t kernel)
{
    if (kernel >= watch->examined_room) {
        uint32_t room = kernel * 2 + 256;
        uint32_t *more = dcp_arena_alloc(&watch->arena, room * sizeof *more);
        if (!more)
            return NULL;
        if (watch->examined_room)
            memcpy(more, watch->examined, watch->examined_room * sizeof *more);
        watch->examined = more;
        watch->examined_room = room;
    }
    return &watch->examined[kernel];
}

static bool
find_block(struct dcp_access_watch *watch, const struct dcp_call *call,
           const struct dcp_ref *ref, struct dcp_access_block *block)
{
    uint64_t address;

    if (ref->slot + 8 > call->launch.bytes)
        return false;
    memcpy(&address, call->launch.params + ref->slot, 8);
    return watch->ops.find(watch->ops.user, address, block);
}

/* The subject that a reference points into; NULL for none. */
static struct subject *
subject_of(struct dcp_access_watch *watch, const struct dcp_call *call,
           const struct dcp_ref *ref)
{
    struct dcp_access_block block;

    if (!find_block(watch, call, ref, &block))
        return NULL;
    for (uint32_t i = 0; i < watch->subject_count; i++)
        if (watch->subjects[i].block.id == block.id)
            return &watch->subjects[i];
    return NULL;
}

/* Lists the blocks of a launch. False when they are too many or too large. */
static bool
find_subjects(struct dcp_access_watch *watch, const struct dcp_call *call)
{
    uint64_t bytes = 0;

    watch->subject_count = 0;
    for (uint32_t i = 0; i < call->ref_count; i++) {
        struct dcp_access_block block;
        if (!find_block(watch, call, &call->refs[i], &block))
            continue;
        struct subject *s = subject_of(watch, call, &call->refs[i]);
        if (!s) {
            if (watch->subject_count == SUBJECTS_MAX)
                return false;
            s = &watch->subjects[watch->subject_count++];
            *s = (struct subject){.block = block,
                                  .fresh = is_fresh(watch, block.id)};
            bytes += 2 * block.bytes;
        }
        s->refs++;
    }
    if (watch->subject_count == 0 || bytes > watch->limits.launch_bytes ||
        bytes > watch->limits.total_bytes - watch->bytes)
        return false;
    watch->bytes += bytes;
    return true;
}

/* A launch is worth its cost while the kernel was seen seldom. */
static bool
is_wanted(struct dcp_access_watch *watch, const struct dcp_call *call)
{
    if (watch->done || call->op != DCP_CALL_LAUNCH || call->ref_count == 0)
        return false;
    if (watch->launches >= watch->limits.launches ||
        watch->bytes >= watch->limits.total_bytes) {
        watch->done = true;
        return false;
    }
    uint32_t *times = times_examined(watch, call->launch.kernel->id);
    if (!times || *times >= watch->limits.each)
        return false;
    ++*times;
    return true;
}

static void
give_up(struct dcp_access_watch *watch)
{
    watch->done = true;
    watch->subject_count = 0;
    dcp_info("access discovery ends early: hashing a block failed");
}

static bool
hash_all(struct dcp_access_watch *watch, const struct dcp_call *call,
         uint32_t base)
{
    for (uint32_t i = 0; i < watch->subject_count; i++) {
        const struct dcp_access_block *b = &watch->subjects[i].block;
        if (!watch->ops.hash(watch->ops.user, call->stream, b->base, b->bytes,
                             base + i))
            return false;
    }
    return true;
}

static bool
is_work(const struct dcp_call *call)
{
    return call->op == DCP_CALL_LAUNCH || call->op == DCP_CALL_COPY ||
           call->op == DCP_CALL_FILL || call->op == DCP_CALL_OPAQUE;
}

bool
dcp_access_begin(struct dcp_access_watch *watch, const struct dcp_call *call)
{
    bool wanted = is_wanted(watch, call) && find_subjects(watch, call);

    /* Work may write a block through a pointer that lies in device memory,
     * where nobody sees it: a block counts as fresh only until the first work
     * after its allocation, even if that does not refer to it. */
    if (is_work(call))
        watch->fresh_count = 0;
    if (!wanted) {
        watch->subject_count = 0;
        return false;
    }
    for (uint32_t i = 0; i < watch->subject_count; i++) {
        const struct subject *s = &watch->subjects[i];
        if (s->fresh && !watch->ops.fill(watch->ops.user, call->stream,
                                         s->block.base, s->block.bytes)) {
            give_up(watch);
            return false;
        }
    }
    if (!hash_all(watch, call, 0)) {
        give_up(watch);
        return false;
    }
    return true;
}

static void
note_results(struct dcp_access_watch *watch, const struct dcp_call *call)
{
    for (uint32_t i = 0; i < call->ref_count; i++) {
        struct subject *s = subject_of(watch, call, &call->refs[i]);
        unsigned sight = 0;

        if (!s)
            continue;
        if (s->before != s->after)
            sight |= DCP_SIGHT_CHANGED;
        if (s->fresh)
            sight |= DCP_SIGHT_FRESH;
        if (s->refs > 1)
            sight |= DCP_SIGHT_SHARED;
        dcp_access_note(watch->table, call->launch.kernel->id,
                        call->refs[i].slot, sight);
    }
}

static void
finish(struct dcp_access_watch *watch, const struct dcp_call *call)
{
    uint64_t results[2 * SUBJECTS_MAX];
    uint32_t count = watch->subject_count;

    if (!hash_all(watch, call, count) ||
        !watch->ops.read(watch->ops.user, call->stream, results, 2 * count)) {
        give_up(watch);
        return;
    }
    for (uint32_t i = 0; i < count; i++) {
        watch->subjects[i].before = results[i];
        watch->subjects[i].after = results[count + i];
    }
    watch->launches++;
    note_results(watch, call);
}

void
dcp_access_end(struct dcp_access_watch *watch, const struct dcp_call *call,
               bool ok)
{
    struct dcp_access_block block;

    if (watch->subject_count && ok)
        finish(watch, call);
    watch->subject_count = 0;
    if (call->op == DCP_CALL_ALLOC && ok && watch->fresh_count < FRESH_MAX &&
        watch->ops.find(watch->ops.user, call->memory.address, &block))
        watch->fresh[watch->fresh_count++] = block.id;
}
