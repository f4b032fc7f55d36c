/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "capture/record.h"

#include "intercept/heap.h"
#include "src/clock.h"

#include <string.h>

enum { REFS_MAX = 4096 };

uint8_t
dcp_place_of(uint64_t pointer)
{
    unsigned type = 0;

    if (dcp_heap_owns(pointer))
        return DCP_PLACE_DEVICE;
    CUresult result = dcp_real.cuPointerGetAttribute(
        &type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, pointer);
    if (result == CUDA_ERROR_INVALID_VALUE)
        return DCP_PLACE_PAGEABLE;
    if (result != CUDA_SUCCESS)
        return DCP_PLACE_UNKNOWN;
    return type == CU_MEMORYTYPE_HOST ? DCP_PLACE_PINNED : DCP_PLACE_DEVICE;
}

/* How many bytes of an attribute's value mean something; what follows is
 * whatever the program's stack held. */
static size_t
attr_bytes(CUlaunchAttributeID id)
{
    switch ((int)id) {
    case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
        return sizeof(CUaccessPolicyWindow);
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
    case 11: /* preferred cluster dimension, 12.8 */
        return 12;
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
        return sizeof(CUlaunchMemSyncDomainMap);
    default:
        return 4;
    }
}

uint64_t
dcp_attrs_hash(const CUlaunchAttribute *attrs, uint32_t count, bool *graphable)
{
    uint64_t hash = 0;

    *graphable = true;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t words[sizeof(CUlaunchAttributeValue) / 8] = {0};

        if (attrs[i].id == CU_LAUNCH_ATTRIBUTE_IGNORE)
            continue;
        if (attrs[i].id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT ||
            attrs[i].id == CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT ||
            attrs[i].id == CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE)
            *graphable = false;
        memcpy(words, &attrs[i].value, attr_bytes(attrs[i].id));
        hash = (hash ^ (uint64_t)attrs[i].id) * 0x9E3779B97F4A7C15u;
        for (unsigned w = 0; w < sizeof words / 8; w++)
            hash = (hash ^ words[w] ^ (hash >> 29)) * 0xBF58476D1CE4E5B9u;
        hash |= 1;
    }
    return hash;
}

int
dcp_params_pack(const struct dcp_kernel *kernel, void **params, void **extra,
                uint8_t *packed)
{
    uint64_t changed = 0;

    if (!kernel->known)
        return -1;
    if (params) {
        for (uint32_t i = 0; i < kernel->param_count; i++) {
            const struct dcp_kernel_param *p = &kernel->params[i];
            uint8_t *to = packed + p->offset;

            if (p->bytes == 8) {
                uint64_t new, old;
                memcpy(&new, params[i], 8);
                memcpy(&old, to, 8);
                changed |= new ^ old;
                memcpy(to, &new, 8);
            } else if (p->bytes == 4) {
                uint32_t new, old;
                memcpy(&new, params[i], 4);
                memcpy(&old, to, 4);
                changed |= new ^ old;
                memcpy(to, &new, 4);
            } else if (memcmp(to, params[i], p->bytes) != 0) {
                memcpy(to, params[i], p->bytes);
                changed = 1;
            }
        }
        return changed != 0;
    }
    if (!extra)
        return kernel->param_count == 0 ? 0 : -1;
    const uint8_t *buffer = NULL;
    size_t bytes = 0;
    for (unsigned i = 0; extra[i] != CU_LAUNCH_PARAM_END; i += 2) {
        if (extra[i] == CU_LAUNCH_PARAM_BUFFER_POINTER)
            buffer = extra[i + 1];
        else if (extra[i] == CU_LAUNCH_PARAM_BUFFER_SIZE)
            bytes = *(size_t *)extra[i + 1];
        else
            return -1;
    }
    /* Exactly the parameters, whatever trails them; a buffer that is too
     * short is the driver's to refuse. */
    if (!buffer || bytes < kernel->bytes)
        return kernel->bytes == 0 ? 0 : -1;
    for (uint32_t i = 0; i < kernel->param_count; i++) {
        const struct dcp_kernel_param *p = &kernel->params[i];

        if (memcmp(packed + p->offset, buffer + p->offset, p->bytes) != 0) {
            memcpy(packed + p->offset, buffer + p->offset, p->bytes);
            changed = 1;
        }
    }
    return changed != 0;
}

static unsigned
ref_add(struct dcp_ref *refs, unsigned count, uint64_t address, uint32_t slot)
{
    struct dcp_block block;

    if (count == REFS_MAX || !dcp_heap_find(address, &block))
        return count;
    refs[count].buffer = (uint32_t)block.id;
    refs[count].slot = slot;
    refs[count].offset = address - block.base;
    return count + 1;
}

static unsigned
refs_of_launch(const struct dcp_call *call, struct dcp_ref *refs)
{
    unsigned count = 0;
    CUdeviceptr base;
    size_t range;

    dcp_heap_range(&base, &range);
    for (uint32_t at = 0; at + 8 <= call->launch.bytes; at += 8) {
        uint64_t word;

        memcpy(&word, call->launch.params + at, 8);
        if (word - base < range)
            count = ref_add(refs, count, word, at);
    }
    return count;
}

static bool
call_record_launch(struct dcp_call *call, const struct dcp_view *view,
                   struct dcp_arena *arena)
{
    const struct dcp_kernel *kernel = dcp_kernel_get(view->launch.handle);
    bool graphable;

    if (!kernel)
        return false;
    call->launch.kernel = kernel;
    memcpy(call->launch.grid, view->launch.grid, 12);
    memcpy(call->launch.block, view->launch.block, 12);
    call->launch.shared = view->launch.shared;
    call->launch.attrs = dcp_attrs_hash(view->launch.attrs,
                                        view->launch.attr_count, &graphable);
    call->launch.bytes = kernel->bytes;
    call->launch.params = dcp_arena_alloc(arena, kernel->bytes + 8u);
    if (!call->launch.params)
        return false;
    dcp_params_pack(kernel, view->launch.params, view->launch.extra,
                    call->launch.params);
    return true;
}

bool
dcp_call_record(struct dcp_call *call, const struct dcp_view *view,
                struct dcp_arena *arena)
{
    struct dcp_ref refs[REFS_MAX];
    unsigned count = 0;

    memset(call, 0, sizeof *call);
    call->op = view->op;
    call->sync = view->sync;
    call->hook = view->hook;
    call->stream = view->stream;
    call->begin_ns = dcp_now_ns();
    switch ((enum dcp_call_op)view->op) {
    case DCP_CALL_LAUNCH:
        if (!call_record_launch(call, view, arena))
            return false;
        count = refs_of_launch(call, refs);
        break;
    case DCP_CALL_COPY:
        call->copy.dst = view->copy.dst;
        call->copy.src = view->copy.src;
        call->copy.bytes = view->copy.bytes;
        call->copy.dst_place = view->copy.dst_place;
        call->copy.src_place = view->copy.src_place;
        count = ref_add(refs, count, view->copy.dst, 0);
        count = ref_add(refs, count, view->copy.src, 8);
        break;
    case DCP_CALL_FILL:
        call->fill.dst = view->fill.dst;
        call->fill.pitch = view->fill.pitch;
        call->fill.width = view->fill.width;
        call->fill.height = view->fill.height;
        call->fill.value = view->fill.value;
        call->fill.element = view->fill.element;
        count = ref_add(refs, count, view->fill.dst, 0);
        break;
    case DCP_CALL_RECORD:
    case DCP_CALL_DEPEND:
        call->event.event = view->event.event;
        call->event.flags = view->event.flags;
        break;
    case DCP_CALL_ALLOC:
    case DCP_CALL_FREE:
        call->memory.address = view->memory.address;
        call->memory.bytes = view->memory.bytes;
        if (view->op == DCP_CALL_FREE)
            count = ref_add(refs, count, view->memory.address, 0);
        break;
    case DCP_CALL_WAIT:
    case DCP_CALL_OPAQUE:
        break;
    }
    if (count) {
        call->refs = dcp_arena_copy(arena, refs, count * sizeof *refs);
        if (!call->refs)
            return false;
        call->ref_count = (uint16_t)count;
    }
    return true;
}
