/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "capture/period_private.h"

#include "capture/kernel.h"

#include <string.h>

static uint64_t
mix(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * 0x9e3779b97f4a7c15u;
    return hash ^ hash >> 32;
}

uint64_t
dcp_call_key(const struct dcp_call *call, const struct dcp_log *log)
{
    uint64_t key = mix(call->op + 1u, call->stream);

    if (call->op == DCP_CALL_LAUNCH)
        key = mix(key, call->launch.kernel->id);
    else if (call->op == DCP_CALL_COPY)
        key = mix(key, call->copy.dst_place * 4u + call->copy.src_place);
    else if (call->op == DCP_CALL_FILL)
        key = mix(key, call->fill.element);
    else if (call->op == DCP_CALL_OPAQUE)
        key = mix(key, call->hook);
    for (uint32_t i = 0; log && i < call->ref_count; i++) {
        const struct dcp_log_buffer *b = &log->buffers[call->refs[i].buffer];
        if (b->alloc_call != UINT32_MAX)
            continue;
        key = mix(mix(key, b->block), call->refs[i].offset);
        break;
    }
    return key ? key : 1;
}

static bool
is_work(const struct dcp_call *call)
{
    return call->op == DCP_CALL_LAUNCH || call->op == DCP_CALL_COPY ||
           call->op == DCP_CALL_FILL || call->op == DCP_CALL_OPAQUE;
}

static void *
take(struct dcp_walk *walk, size_t count, size_t bytes)
{
    return dcp_arena_alloc(&walk->arena, (count + 1) * bytes);
}

/* Numbers distinct pairs of words in order of first appearance. */
struct pairs {
    uint64_t (*word)[2];
    uint32_t *number; /* + 1; 0: free */
    uint32_t places, count;
};

static bool
pairs_create(struct pairs *pairs, struct dcp_walk *walk, size_t most)
{
    pairs->places = 64;
    while (pairs->places < most * 2 && pairs->places < 1u << 31)
        pairs->places *= 2;
    pairs->word = take(walk, pairs->places, sizeof *pairs->word);
    pairs->number = take(walk, pairs->places, sizeof *pairs->number);
    return pairs->word && pairs->number;
}

static uint32_t
pairs_number(struct pairs *pairs, uint64_t a, uint64_t b)
{
    uint64_t at = mix(mix(0x51ed27, a), b);

    for (;; at++) {
        uint32_t i = (uint32_t)(at & (pairs->places - 1));
        if (!pairs->number[i]) {
            pairs->word[i][0] = a;
            pairs->word[i][1] = b;
            pairs->number[i] = ++pairs->count;
        } else if (pairs->word[i][0] != a || pairs->word[i][1] != b) {
            continue;
        }
        return pairs->number[i] - 1;
    }
}

static enum dcp_status
find_work(struct dcp_walk *walk)
{
    const struct dcp_log *log = walk->log;
    uint32_t count = 0;

    for (uint32_t i = walk->from; i < log->call_count; i++)
        count += is_work(&log->calls[i]);
    walk->call = take(walk, count, sizeof *walk->call);
    walk->shape = take(walk, count, sizeof *walk->shape);
    if (!walk->call || !walk->shape)
        return DCP_NOMEM;
    for (uint32_t i = walk->from; i < log->call_count; i++) {
        if (!is_work(&log->calls[i]))
            continue;
        walk->call[walk->count] = i;
        walk->shape[walk->count++] = dcp_call_key(&log->calls[i], NULL);
    }
    walk->steps += log->call_count - walk->from;
    return DCP_OK;
}

/* First and last touch of each block: position + 1; 0: never. */
static void
find_spans(const struct dcp_walk *walk, uint32_t *first, uint32_t *last)
{
    for (uint32_t i = 0; i < walk->count; i++) {
        const struct dcp_call *call = &walk->log->calls[walk->call[i]];
        for (uint32_t r = 0; r < call->ref_count; r++) {
            uint32_t b = call->refs[r].buffer;
            if (!first[b])
                first[b] = i + 1;
            last[b] = i + 1;
        }
    }
}

static enum dcp_status
find_lasting(struct dcp_walk *walk)
{
    const struct dcp_log *log = walk->log;
    uint32_t window = log->call_count - walk->from;

    walk->lasting = take(walk, log->buffer_count, 1);
    walk->first = take(walk, log->buffer_count, sizeof *walk->first);
    walk->last = take(walk, log->buffer_count, sizeof *walk->last);
    if (!walk->lasting || !walk->first || !walk->last)
        return DCP_NOMEM;
    find_spans(walk, walk->first, walk->last);
    for (uint32_t i = 0; i < log->buffer_count; i++) {
        uint32_t begin = log->buffers[i].alloc_call;
        uint32_t end = log->buffers[i].free_call;
        if (begin == UINT32_MAX || begin < walk->from)
            begin = walk->from;
        if (end > log->call_count)
            end = log->call_count;
        /* A block that is kept and never touched again (the losses of all
         * steps) is not part of the machinery. */
        walk->lasting[i] = end > begin && end - begin >= window / 2 &&
                           walk->last[i] - walk->first[i] >= walk->count / 4;
    }
    walk->steps += log->buffer_count;
    return DCP_OK;
}

/* References to lasting blocks, by position. */
static enum dcp_status
find_objects(struct dcp_walk *walk)
{
    const struct dcp_log *log = walk->log;
    struct pairs pairs = {0};
    uint32_t total = 0;

    for (uint32_t i = 0; i < walk->count; i++)
        total += log->calls[walk->call[i]].ref_count;
    walk->refs.start = take(walk, walk->count, sizeof *walk->refs.start);
    walk->refs.items = take(walk, total, sizeof *walk->refs.items);
    walk->object_buffer = take(walk, total, sizeof *walk->object_buffer);
    walk->object_offset = take(walk, total, sizeof *walk->object_offset);
    if (!walk->refs.start || !walk->refs.items || !walk->object_buffer ||
        !walk->object_offset || !pairs_create(&pairs, walk, total))
        return DCP_NOMEM;
    uint32_t n = 0;
    for (uint32_t i = 0; i < walk->count; i++) {
        const struct dcp_call *call = &log->calls[walk->call[i]];
        for (uint32_t r = 0; r < call->ref_count; r++) {
            const struct dcp_ref *ref = &call->refs[r];
            if (!walk->lasting[ref->buffer])
                continue;
            uint32_t object = pairs_number(&pairs, ref->buffer, ref->offset);
            walk->object_buffer[object] = ref->buffer;
            walk->object_offset[object] = ref->offset;
            walk->refs.items[n++] = object;
        }
        walk->refs.start[i + 1] = n;
    }
    walk->object_count = pairs.count;
    walk->steps += total;
    return DCP_OK;
}

static enum dcp_status
find_touches(struct dcp_walk *walk)
{
    struct dcp_lists *t = &walk->touches;
    uint32_t total = walk->refs.start[walk->count];
    uint32_t *last = take(walk, walk->object_count, sizeof *last);
    uint32_t *at = take(walk, walk->object_count, sizeof *at);

    t->start = take(walk, walk->object_count, sizeof *t->start);
    t->items = take(walk, total, sizeof *t->items);
    if (!last || !at || !t->start || !t->items)
        return DCP_NOMEM;
    for (int pass = 0; pass < 2; pass++) {
        for (uint32_t i = 0; i < walk->count; i++) {
            for (uint32_t r = walk->refs.start[i]; r < walk->refs.start[i + 1];
                 r++) {
                uint32_t object = walk->refs.items[r];
                if (last[object] == i + 1)
                    continue;
                last[object] = i + 1;
                if (pass == 0)
                    at[object]++;
                else
                    t->items[at[object]++] = i;
            }
        }
        if (pass)
            break;
        for (uint32_t o = 0; o < walk->object_count; o++) {
            t->start[o + 1] = t->start[o] + at[o];
            at[o] = t->start[o];
            last[o] = 0;
        }
    }
    walk->steps += total;
    return DCP_OK;
}

static enum dcp_status
find_keys(struct dcp_walk *walk)
{
    struct dcp_lists *p = &walk->places;
    struct pairs pairs = {0};

    walk->key = take(walk, walk->count, sizeof *walk->key);
    if (!walk->key || !pairs_create(&pairs, walk, walk->count))
        return DCP_NOMEM;
    for (uint32_t i = 0; i < walk->count; i++) {
        uint32_t first = walk->refs.start[i];
        bool any = first < walk->refs.start[i + 1];
        walk->key[i] = pairs_number(&pairs, walk->shape[i],
                                    any ? walk->refs.items[first] + 1u : 0);
    }
    walk->key_count = pairs.count;
    p->start = take(walk, walk->key_count + 1u, sizeof *p->start);
    p->items = take(walk, walk->count, sizeof *p->items);
    if (!p->start || !p->items)
        return DCP_NOMEM;
    for (uint32_t i = 0; i < walk->count; i++)
        p->start[walk->key[i] + 2]++;
    for (uint32_t k = 0; k < walk->key_count; k++)
        p->start[k + 2] += p->start[k + 1];
    for (uint32_t i = 0; i < walk->count; i++)
        p->items[p->start[walk->key[i] + 1]++] = i;
    walk->steps += walk->count;
    return DCP_OK;
}

static enum dcp_status
find_carried(struct dcp_walk *walk)
{
    const struct dcp_log *log = walk->log;
    const uint32_t *first = walk->first, *last = walk->last;
    uint64_t bytes = 0;
    uint32_t blocks = 0;

    walk->carried = take(walk, walk->count, sizeof *walk->carried);
    walk->carried_bytes = take(walk, walk->count, sizeof *walk->carried_bytes);
    if (!walk->carried || !walk->carried_bytes)
        return DCP_NOMEM;
    for (uint32_t b = 0; b < log->buffer_count; b++) {
        if (walk->lasting[b] || first[b] == last[b])
            continue;
        walk->carried[first[b] - 1]++;
        walk->carried[last[b] - 1]--;
        walk->carried_bytes[first[b] - 1] += log->buffers[b].bytes;
        walk->carried_bytes[last[b] - 1] -= log->buffers[b].bytes;
    }
    for (uint32_t i = 0; i < walk->count; i++) {
        walk->carried[i] = blocks += walk->carried[i];
        walk->carried_bytes[i] = bytes += walk->carried_bytes[i];
        if (blocks > walk->carried_max)
            walk->carried_max = blocks;
        if (bytes > walk->carried_bytes_max)
            walk->carried_bytes_max = bytes;
    }
    walk->steps += log->buffer_count + walk->count;
    return DCP_OK;
}

double
dcp_walk_carried(const struct dcp_walk *walk, uint32_t position)
{
    double blocks = 0, bytes = 0;

    if (walk->carried_max)
        blocks = (double)walk->carried[position] / walk->carried_max;
    if (walk->carried_bytes_max)
        bytes = (double)walk->carried_bytes[position] /
                (double)walk->carried_bytes_max;
    return blocks > bytes ? blocks : bytes;
}

bool
dcp_walk_waits(const struct dcp_walk *walk, uint32_t position)
{
    const struct dcp_log *log = walk->log;
    uint32_t next =
        position + 1 < walk->count ? walk->call[position + 1] : log->call_count;

    for (uint32_t i = walk->call[position] + 1; i < next; i++)
        if (log->calls[i].op == DCP_CALL_WAIT)
            return true;
    return false;
}

bool
dcp_walk_builds(const struct dcp_walk *walk, uint32_t begin, uint32_t end)
{
    const struct dcp_log *log = walk->log;
    uint32_t allocs = 0, stay = 0;

    for (uint32_t b = 0; b < log->buffer_count; b++) {
        if (log->buffers[b].alloc_call < begin ||
            log->buffers[b].alloc_call >= end)
            continue;
        allocs++;
        stay += log->buffers[b].free_call == UINT32_MAX;
    }
    return stay * 16 > allocs;
}

bool
dcp_walk_returns(struct dcp_walk *walk, uint32_t begin, uint32_t middle,
                 uint32_t end)
{
    const struct dcp_log *log = walk->log;
    struct pairs pairs = {0};
    uint32_t seen = 0, back = 0, total = 0, known = 0;

    for (uint32_t i = begin; i < end; i++)
        total += log->calls[walk->call[i]].ref_count;
    if (!pairs_create(&pairs, walk, total)) {
        walk->nomem = true;
        return false;
    }
    for (uint32_t i = begin; i < end; i++) {
        const struct dcp_call *call = &log->calls[walk->call[i]];
        if (i == middle)
            known = pairs.count;
        for (uint32_t r = 0; r < call->ref_count; r++) {
            const struct dcp_ref *ref = &call->refs[r];
            uint32_t born = log->buffers[ref->buffer].alloc_call;
            if (born != UINT32_MAX && born >= walk->call[begin])
                continue;
            uint32_t n = pairs_number(&pairs, ref->buffer, ref->offset);
            seen += i >= middle;
            back += i >= middle && n < known;
        }
    }
    walk->steps += total;
    return seen && back * 4 >= seen * 3;
}

enum dcp_status
dcp_walk_fill(struct dcp_walk *walk, const struct dcp_log *log, uint32_t from)
{
    static enum dcp_status (*const parts[])(struct dcp_walk *) = {
        find_work,    find_lasting, find_objects,
        find_touches, find_keys,    find_carried,
    };
    enum dcp_status status = DCP_OK;

    *walk = (struct dcp_walk){.log = log, .from = from};
    for (size_t i = 0; i < sizeof parts / sizeof *parts && !status; i++)
        status = parts[i](walk);
    if (status)
        dcp_walk_release(walk);
    return status;
}

void
dcp_walk_release(struct dcp_walk *walk)
{
    dcp_arena_release(&walk->arena);
}
