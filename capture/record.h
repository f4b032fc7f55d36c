/* SPDX-License-Identifier: Apache-2.0 */
/* Turns a driver call, whichever form it came in, into one view; and a view
 * into a recorded call that owns its bytes. */
#ifndef DCP_CAPTURE_RECORD_H
#define DCP_CAPTURE_RECORD_H

#include "capture/call.h"
#include "capture/kernel.h"
#include "intercept/hook.h"
#include "src/arena.h"

/* What can be done with a call once it is known. */
enum dcp_fold {
    DCP_FOLD_NONE,  /* no part of the iteration's shape: answered by the driver */
    DCP_FOLD_NODE,  /* can become a graph node */
    DCP_FOLD_MEM,   /* allocation or free: no work on the GPU */
    DCP_FOLD_EAGER, /* always issued in place, in order */
    DCP_FOLD_WAIT,  /* issued in place; the host waits in it */
};

/* A call as the program makes it. Pointers are the program's own and live as
 * long as the call. */
struct dcp_view {
    uint8_t op;     /* enum dcp_call_op */
    uint8_t fold;   /* enum dcp_fold */
    bool sync;
    uint16_t hook;  /* canonical id */
    uint64_t stream;
    union {
        struct {
            CUfunction handle;
            uint32_t grid[3], block[3], shared;
            void **params, **extra;
            const CUlaunchAttribute *attrs;
            uint32_t attr_count;
        } launch;
        struct {
            uint64_t dst, src, bytes;
            uint8_t dst_place, src_place;
        } copy;
        struct {
            uint64_t dst, pitch, width, height;
            uint32_t value;
            uint8_t element;
        } fill;
        struct {
            uint64_t event;
            uint32_t flags;
        } event;
        struct {
            uint64_t address, bytes;
            CUdeviceptr *out;
        } memory;
    };
};

/* Fills `view` from a call. False when the call has no place in an iteration
 * (fold NONE). Asks the driver only about host pointers of copies. */
bool dcp_view_fill(struct dcp_view *view, const struct dcp_hook_info *info,
                   void *args);

/* A hash of launch attributes, 0 for none; *graphable is false when one of
 * them cannot be kept in a graph node. */
uint64_t dcp_attrs_hash(const CUlaunchAttribute *attrs, uint32_t count,
                        bool *graphable);

/* Copies the arguments of a launch into `packed` (kernel->bytes bytes, laid
 * out as the kernel's parameters are). Returns 1 when that changed a byte, 0
 * when not, -1 when the arguments cannot be read (unknown layout). */
int dcp_params_pack(const struct dcp_kernel *kernel, void **params,
                    void **extra, uint8_t *packed);

/* Where a pointer given to a copy points; DCP_PLACE_UNKNOWN when the driver
 * does not say: such a copy is recorded as opaque. */
enum { DCP_PLACE_UNKNOWN = DCP_PLACE_PAGEABLE + 1 };
uint8_t dcp_place_of(uint64_t pointer);

/* Records `view` into `call`: packed parameters, references to live blocks
 * (buffer = low 32 bits of the block's id). All memory is the arena's.
 * False when memory is out; the call is then unusable. */
bool dcp_call_record(struct dcp_call *call, const struct dcp_view *view,
                     struct dcp_arena *arena);

#endif
