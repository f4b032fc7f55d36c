/* SPDX-License-Identifier: Apache-2.0 */
/* `dcprel.verify`: the first uses of each graph are compared with the same
 * calls issued one by one, from the same memory. Slow, and exact: all memory
 * of the heap is saved, the graph runs, the memory is hashed and put back, the
 * calls run, and it is hashed again. The eager results are
 * what the program goes on with. */
#include "config.h"

#include "replay/session.h"

#include "intercept/heap.h"
#include "replay/staging.h"
#include "src/alloc.h"
#include "src/log.h"

#include <stdlib.h>
#include <string.h>

enum { WINDOW = 8 << 20 };

enum verdict { EQUAL, DIFFERENT, UNKNOWN };

struct saved {
    CUdeviceptr base;
    uint64_t bytes;
    uint8_t *copy;
    uint64_t hash;
};

struct snapshot {
    struct saved *blocks;
    uint32_t count, room;
    bool failed;
    uint8_t *window;
};

/* Ranges and not blocks: a block that the program has freed already may still
 * be read by calls that have not run. */
static void
range_note(CUdeviceptr base, size_t bytes, void *user)
{
    struct snapshot *snap = user;

    if (snap->count == snap->room) {
        uint32_t room = snap->room ? snap->room * 2 : 1024;
        struct saved *more = dcp_realloc(snap->blocks, room * sizeof *more);
        if (!more) {
            snap->failed = true;
            return;
        }
        snap->blocks = more;
        snap->room = room;
    }
    snap->blocks[snap->count++] = (struct saved){base, bytes, NULL, 0};
}

static bool
snapshot_take(struct snapshot *snap)
{
    snap->window = dcp_malloc(WINDOW);
    dcp_heap_each_range(range_note, snap);
    if (snap->failed || !snap->window)
        return false;
    for (uint32_t i = 0; i < snap->count; i++) {
        struct saved *b = &snap->blocks[i];
        b->copy = dcp_malloc(b->bytes);
        if (!b->copy || dcp_real.cuMemcpyDtoH_v2(b->copy, b->base, b->bytes) !=
                            CUDA_SUCCESS)
            return false;
    }
    return true;
}

/* There is no way back from half a restored memory: a copy that is refused is
 * tried once more. */
static CUresult
snapshot_restore(const struct snapshot *snap)
{
    for (uint32_t i = 0; i < snap->count; i++) {
        const struct saved *b = &snap->blocks[i];
        CUresult result = dcp_real.cuMemcpyHtoD_v2(b->base, b->copy, b->bytes);

        if (result != CUDA_SUCCESS)
            result = dcp_real.cuMemcpyHtoD_v2(b->base, b->copy, b->bytes);
        if (result != CUDA_SUCCESS)
            return result;
    }
    return dcp_real.cuCtxSynchronize();
}

static uint64_t
hash_bytes(uint64_t hash, const uint8_t *at, size_t bytes)
{
    uint64_t word;

    for (; bytes >= 8; at += 8, bytes -= 8) {
        memcpy(&word, at, 8);
        hash = (hash ^ word) * 0x9E3779B97F4A7C15u;
        hash ^= hash >> 32;
    }
    for (; bytes; at++, bytes--)
        hash = (hash ^ *at) * 0x100000001B3u;
    return hash;
}

static bool
block_hash(const struct snapshot *snap, const struct saved *block,
           uint64_t *hash)
{
    *hash = block->bytes;
    for (uint64_t at = 0; at < block->bytes; at += WINDOW) {
        size_t part = block->bytes - at < WINDOW ? block->bytes - at : WINDOW;
        if (dcp_real.cuMemcpyDtoH_v2(snap->window, block->base + at, part) !=
            CUDA_SUCCESS)
            return false;
        *hash = hash_bytes(*hash, snap->window, part);
    }
    return true;
}

static void
snapshot_drop(struct snapshot *snap)
{
    for (uint32_t i = 0; i < snap->count; i++)
        free(snap->blocks[i].copy);
    free(snap->blocks);
    free(snap->window);
}

/* Memory that is not the heap's is not saved, and what runs twice must not
 * change it. What a kernel keeps in variables of its module nobody can see. */
static bool
is_foreign(uint64_t pointer)
{
    return pointer >= 4096 && !dcp_heap_owns(pointer) &&
           dcp_place_of(pointer) != DCP_PLACE_PAGEABLE;
}

static bool
touches_foreign(const struct dcp_node *node)
{
    const struct dcp_call *call = &node->call;
    uint64_t word;

    if (node->op == DCP_CALL_FILL)
        return is_foreign(call->fill.dst);
    if (node->op == DCP_CALL_COPY)
        return (call->copy.dst_place == DCP_PLACE_DEVICE &&
                is_foreign(call->copy.dst)) ||
               (call->copy.src_place == DCP_PLACE_DEVICE &&
                is_foreign(call->copy.src));
    for (uint32_t at = 0; at + 8 <= call->launch.bytes; at += 8) {
        memcpy(&word, call->launch.params + at, 8);
        if (is_foreign(word))
            return true;
    }
    return false;
}

bool
dcp_verify_can(const struct dcp_segment *segment)
{
    static bool told;

    for (uint32_t i = 0; i < segment->count; i++) {
        if (!touches_foreign(segment->nodes[i]))
            continue;
        if (!told)
            dcp_info("verify: calls %u to %u use memory that is not the heap's "
                     "and are not checked",
                     segment->nodes[0]->depth,
                     segment->nodes[segment->count - 1]->depth);
        told = true;
        return false;
    }
    return true;
}

static CUresult
issue_all(struct dcp_segment *segment)
{
    CUresult first = CUDA_SUCCESS;

    for (uint32_t i = 0; i < segment->count; i++) {
        CUresult result = dcp_node_issue(segment->nodes[i], NULL);
        if (result == CUDA_SUCCESS && segment->nodes[i]->stage)
            dcp_stage_issued(segment->nodes[i]->stage,
                             (CUstream)segment->stream);
        if (first == CUDA_SUCCESS)
            first = result;
    }
    return first;
}

static void
differ_report(struct dcp_session *s, const struct dcp_segment *segment,
              const struct saved *block)
{
    char text[160];
    uint64_t fields[] = {s->graphs, segment->nodes[0]->depth, block == NULL};
    size_t bytes = 0;

    if (block) {
        dcp_warn("verify: calls %u to %u of the iteration gave other bytes as "
                 "a graph than one by one, first in a frame of %llu bytes; "
                 "they stay eager",
                 segment->nodes[0]->depth,
                 segment->nodes[segment->count - 1]->depth,
                 (unsigned long long)block->bytes);
        memcpy(text, "memory differs", bytes = 14);
    }
    dcp_trace_put(s->trace, DCP_TRACE_VERIFY, fields, 3, text, bytes);
}

/* The graph has run; the calls are issued from the memory before. UNKNOWN when
 * something that is needed for comparing failed: what the program goes on with
 * is right all the same, unless *result says otherwise. */
static enum verdict
compare(struct snapshot *snap, struct dcp_segment *segment,
        const struct saved **differs, CUresult *result)
{
    for (uint32_t i = 0; i < snap->count; i++)
        if (!block_hash(snap, &snap->blocks[i], &snap->blocks[i].hash))
            return UNKNOWN;
    *result = snapshot_restore(snap);
    if (*result == CUDA_SUCCESS)
        *result = issue_all(segment);
    if (*result != CUDA_SUCCESS || dcp_real.cuCtxSynchronize() != CUDA_SUCCESS)
        return UNKNOWN;
    for (uint32_t i = 0; i < snap->count; i++) {
        uint64_t hash;
        if (!block_hash(snap, &snap->blocks[i], &hash))
            return UNKNOWN;
        if (hash != snap->blocks[i].hash) {
            *differs = &snap->blocks[i];
            return DIFFERENT;
        }
    }
    return EQUAL;
}

bool
dcp_verify_segment(struct dcp_session *s, struct dcp_segment *segment,
                   CUresult *result)
{
    struct snapshot snap = {0};
    const struct saved *differs = NULL;
    enum verdict verdict = UNKNOWN;

    s->pass.eager += segment->count;
    s->pass.swallowed -= segment->count;
    if (dcp_real.cuCtxSynchronize() != CUDA_SUCCESS || !snapshot_take(&snap)) {
        dcp_warn("verify: the live memory could not be saved; not checked");
        *result = issue_all(segment);
    } else if (dcp_segment_launch(segment) != CUDA_SUCCESS) {
        *result = issue_all(segment);
        verdict = DIFFERENT;
    } else {
        *result = dcp_real.cuCtxSynchronize();
        if (*result == CUDA_SUCCESS)
            verdict = compare(&snap, segment, &differs, result);
    }
    if (verdict != UNKNOWN)
        differ_report(s, segment, differs);
    snapshot_drop(&snap);
    return verdict != DIFFERENT;
}
