/* SPDX-License-Identifier: Apache-2.0 */
/* One recorded driver call. The recorder (capture/record.c) makes them; the
 * follower compares the program's calls with them; lift turns a run of them
 * into IR. Pointers lead into the owner's arena. */
#ifndef DCP_CAPTURE_CALL_H
#define DCP_CAPTURE_CALL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct dcp_kernel; /* capture/kernel.h */

enum dcp_call_op {
    DCP_CALL_LAUNCH, /* kernel */
    DCP_CALL_COPY,   /* one-dimensional copy */
    DCP_CALL_FILL,   /* memset, one- or two-dimensional */
    DCP_CALL_RECORD, /* event record */
    DCP_CALL_DEPEND, /* stream waits for an event */
    DCP_CALL_ALLOC,
    DCP_CALL_FREE,
    DCP_CALL_WAIT,   /* the host waits, or looks at results */
    DCP_CALL_OPAQUE, /* work that is always issued as the program does it */
};

enum dcp_place { DCP_PLACE_DEVICE, DCP_PLACE_PINNED, DCP_PLACE_PAGEABLE };

/* A pointer into a live block, found in a call's arguments. */
struct dcp_ref {
    uint32_t buffer; /* number of the block in the log's table (log.h) */
    uint32_t slot;   /* byte offset in the packed parameters; copies and fills:
                        0 destination, 8 source; frees: 0 */
    uint64_t offset; /* bytes into the block */
};

struct dcp_call {
    uint8_t op;         /* enum dcp_call_op */
    bool sync;          /* the program's call returns only when it is done */
    uint16_t hook;      /* canonical hook id; 0 where the log was read from text */
    uint16_t thread;    /* small number of the calling thread, by first use */
    uint16_t ref_count;
    uint32_t stack;     /* id of the call stack, 0: not taken */
    uint64_t stream;    /* normalised handle */
    uint64_t begin_ns;
    struct dcp_ref *refs;
    union {
        struct {
            const struct dcp_kernel *kernel;
            uint32_t grid[3], block[3], shared;
            uint32_t bytes;    /* of params */
            uint8_t *params;   /* packed as the kernel's layout says */
            uint64_t attrs;    /* hash of the launch attributes, 0: none */
        } launch;
        struct {
            uint64_t dst, src, bytes;
            uint8_t dst_place, src_place; /* enum dcp_place */
        } copy;
        struct {
            uint64_t dst, pitch, width, height; /* width in elements */
            uint32_t value;
            uint8_t element; /* 1, 2 or 4 bytes */
        } fill;
        struct {
            uint64_t event;
            uint32_t flags;
        } event;
        struct {
            uint64_t address, bytes;
            uint32_t buffer; /* number in the log's table */
        } memory;
    };
};

/* A block that lived while the log was taken. */
struct dcp_log_buffer {
    uint64_t block;      /* struct dcp_block's id */
    uint64_t address, bytes;
    uint32_t alloc_call; /* index of the ALLOC; UINT32_MAX: older than the log */
    uint32_t free_call;  /* index of the FREE; UINT32_MAX: still alive */
    uint32_t stack;
};

/* A run of calls, for analysis. `buffers` is ordered by block id. */
struct dcp_log {
    struct dcp_call *calls;
    uint32_t call_count;
    struct dcp_log_buffer *buffers;
    uint32_t buffer_count;
};

#endif
