/* SPDX-License-Identifier: Apache-2.0 */
/* One iteration of a program as a graph: buffers, kernels, and nodes in the
 * order in which the program issued them. Lift builds it, passes rewrite it,
 * lowering walks it, the report prints it.
 *
 * A graph owns one arena; everything reachable from it lies there and lives
 * until dcp_graph_destroy. Numbers (of buffers, kernels, streams, events,
 * nodes) are indices, given in order of first appearance; DCP_NONE is "none".
 * Not thread-safe: the owner serialises. Running out of memory gives NULL,
 * DCP_NONE or DCP_NOMEM and leaves a graph that can still be read.
 *
 * Text form (dcp_ir_print, dcp_ir_parse): one line a thing, no addresses, and
 * no times outside comments, so that two runs and two ranks diff clean.
 *
 *     dcprel-ir 1
 *     step key=9f3c41d0 rank=0/1 streams=1 events=1 micro=1
 *     buf %0 param bytes=4096 persistent "embed"
 *     buf %1 act bytes=1024 at=512
 *     fn $0 "gemm" params=0:8,8:8,16:4
 *     mark part=forward micro=0
 *     n0 alloc %1 @0 call=0
 *     n1 launch $0 @0 grid=64,8,1 block=256,1,1 r=%0 w=%1:8+256 call=1
 *     n2 copy @0 bytes=4 to=pageable sync r=%1:8 call=2
 *     n3 record !0 @0 call=3
 *     n4 wait !0 @0 call=4
 *     n5 host @0 call=5
 *     n6 free %1 @0 after=n2 call=6    # to the end of the line: a comment
 *
 * Sigils: %n buffer, $n kernel, @n stream, !n event, nN node. A reference is
 * ACCESS=%BUFFER:SLOT+OFFSET with access r, w or rw, and "?" after it where
 * the access was assumed and not found; ":0" and "+0" are printed as nothing.
 * Whatever has its default value is omitted.
 */
#ifndef DCP_SRC_IR_H
#define DCP_SRC_IR_H

#include "src/arena.h"
#include "src/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DCP_NONE UINT32_MAX     /* no buffer, kernel, stream, event, call */
#define DCP_NO_PLACE UINT64_MAX /* a buffer that has no planned address */
#define DCP_PLACE_ALIGN 512u    /* of planned addresses, as of the driver's */

enum dcp_op {
#define OP(name, text, properties) DCP_OP_##name,
#include "src/ir_op.def"
#undef OP
    DCP_OP_COUNT
};

enum dcp_op_property {
    DCP_IS_WORK = 1,     /* takes time on its stream */
    DCP_IS_READS = 2,    /* its references may read */
    DCP_IS_WRITES = 4,   /* its references may write */
    DCP_IS_EVENT = 8,    /* names an event */
    DCP_IS_MEMORY = 16,  /* begins or ends a buffer's life */
    DCP_IS_CUT = 32,     /* a graph segment ends here */
    DCP_IS_GRAPH = 64,   /* can be part of a CUDA graph */
    DCP_IS_DROP = 128,   /* may go when nothing reads what it writes */
    DCP_IS_OURS = 256,   /* never made by the program, only by passes */
    DCP_IS_COLL = 512,   /* all ranks take part */
};

#define ROLE(name, text, meaning) DCP_ROLE_##name,
enum dcp_role {
#include "src/ir_role.def"
    DCP_ROLE_COUNT
};
#define PART(name, text, meaning) DCP_PART_##name,
enum dcp_part {
#include "src/ir_role.def"
    DCP_PART_COUNT
};
#define PLACE(name, text, meaning) DCP_IR_##name,
enum dcp_ir_place {
#include "src/ir_role.def"
    DCP_IR_PLACE_COUNT
};
#define DTYPE(name, text, bytes) DCP_DTYPE_##name,
enum dcp_dtype {
#include "src/ir_role.def"
    DCP_DTYPE_COUNT
};
#define REDUCTION(name, text, meaning) DCP_REDUCTION_##name,
enum dcp_reduction {
#include "src/ir_role.def"
    DCP_REDUCTION_COUNT
};

enum dcp_access {
    DCP_READ = 1,
    DCP_WRITE = 2,
    DCP_ASSUMED = 4, /* not found by experiment: the safe guess */
};

struct dcp_ir_buffer {
    uint8_t role;      /* enum dcp_role */
    bool persistent;   /* the same block in every iteration */
    uint64_t bytes;
    uint64_t place;    /* offset in the planned range, or DCP_NO_PLACE */
    const char *label; /* for people; NULL: none */
};

struct dcp_ir_param {
    uint32_t offset, bytes; /* in the packed parameters */
};

struct dcp_ir_kernel {
    const char *name; /* mangled, never NULL */
    bool known;       /* the layout was found */
    uint32_t param_count;
    struct dcp_ir_param *params;
};

struct dcp_ir_ref {
    uint32_t buffer;
    uint32_t slot;   /* launch: byte offset in the packed parameters; copy:
                        0 destination, 8 source; others: 0 */
    uint64_t offset; /* bytes into the buffer */
    uint8_t access;  /* bits of enum dcp_access */
};

struct dcp_ir_node {
    uint8_t op;       /* enum dcp_op */
    uint8_t part;     /* enum dcp_part */
    uint16_t micro;   /* accumulation step within the iteration, from 0 */
    bool sync;        /* the program's call returns only when it is done */
    bool carried;     /* wait: for a record of an earlier iteration */
    uint32_t stream;  /* DCP_NONE: on no stream (a device-wide wait) */
    uint32_t call;    /* index of the recorded call; DCP_NONE: a node of ours */
    uint32_t ref_count, after_count;
    struct dcp_ir_ref *refs;
    uint32_t *after;  /* earlier nodes, ordering that buffers do not imply */
    uint64_t gpu_ns;  /* measured; 0: not. A note: no part of equality */
    union {
        struct {
            uint32_t kernel;
            uint32_t grid[3], block[3], shared;
            uint64_t attrs; /* hash of the launch attributes, 0: none */
        } launch;
        struct {
            uint64_t bytes;
            uint8_t to, from; /* enum dcp_ir_place */
        } copy;
        struct {
            uint64_t pitch, width, height; /* width in elements; pitch in
                                              bytes, 0 where height is 1 */
            uint32_t value;
            uint8_t element; /* 1, 2 or 4 bytes */
        } fill;
        struct {
            uint32_t event; /* record, wait; host: DCP_NONE or what it awaits */
            const char *label; /* host, opaque: the driver's call; or NULL */
        } sync_on;
        struct {
            uint32_t buffer; /* alloc, free */
        } memory;
        struct {
            uint64_t bytes; /* of each reference; 0: to the buffer's end */
            uint32_t root;
            uint8_t dtype, reduction;
        } move; /* operations with DCP_IS_OURS */
    };
};

struct dcp_graph {
    struct dcp_arena arena;
    uint64_t key; /* fingerprint of the iteration */
    uint32_t rank, world;
    uint32_t micro_count; /* accumulation steps, at least 1 */
    uint64_t arena_bytes; /* of the planned range; 0: nothing is placed */

    struct dcp_ir_buffer *buffers;
    struct dcp_ir_kernel *kernels;
    struct dcp_ir_node *nodes; /* in program order */
    uint32_t buffer_count, kernel_count, node_count;
    uint32_t stream_count, event_count;
    uint32_t buffer_room, kernel_room, node_room;
};

/* --- ir.c: build, copy, compare ----------------------------------------- */

/* An empty graph (rank 0 of 1, one micro-step), or NULL. */
struct dcp_graph *dcp_graph_create(void);

/* Releases the graph and all it owns; accepts NULL. */
void dcp_graph_destroy(struct dcp_graph *graph);

/* A deep copy with an arena of its own, or NULL. */
struct dcp_graph *dcp_graph_clone(const struct dcp_graph *graph);

/* Makes room beforehand (each may be 0); only a matter of speed. */
enum dcp_status dcp_graph_reserve(struct dcp_graph *graph, uint32_t nodes,
                                  uint32_t buffers);

/* Each returns the new number, or DCP_NONE. Strings are copied. */
uint32_t dcp_ir_add_buffer(struct dcp_graph *graph, enum dcp_role role,
                           uint64_t bytes, bool persistent,
                           const char *label);
/* `params` NULL with `count` 0 and `known` false: the layout is unknown. */
uint32_t dcp_ir_add_kernel(struct dcp_graph *graph, const char *name,
                           bool known, const struct dcp_ir_param *params,
                           uint32_t count);
uint32_t dcp_ir_add_stream(struct dcp_graph *graph);
uint32_t dcp_ir_add_event(struct dcp_graph *graph);

/* Appends a node with every field at its default (call, event, kernel and
 * memory.buffer DCP_NONE; fill: element 1, height 1; launch: grid and block
 * 1,1,1); the caller fills in the rest. The pointer is valid until the next
 * dcp_ir_add_node. NULL when memory is out. */
struct dcp_ir_node *dcp_ir_add_node(struct dcp_graph *graph, enum dcp_op op,
                                    uint32_t stream);

/* Gives a node `count` zeroed references or edges, to be filled in by the
 * caller, in the place of what it had. NULL when memory is out, the node
 * unchanged. */
struct dcp_ir_ref *dcp_ir_add_refs(struct dcp_graph *graph,
                                   struct dcp_ir_node *node, uint32_t count);
uint32_t *dcp_ir_add_after(struct dcp_graph *graph, struct dcp_ir_node *node,
                           uint32_t count);

/* Equal in everything but gpu_ns. */
bool dcp_ir_equal(const struct dcp_graph *a, const struct dcp_graph *b);

/* The same for equal graphs, on any machine; the rank is left out, so that
 * ranks can compare. 0 when memory is out. */
uint64_t dcp_ir_hash(const struct dcp_graph *graph);

/* Words of the text form; "?" for a value out of range. */
const char *dcp_op_text(enum dcp_op op);
unsigned dcp_op_properties(enum dcp_op op); /* enum dcp_op_property */
const char *dcp_role_text(enum dcp_role role);
const char *dcp_part_text(enum dcp_part part);
const char *dcp_ir_place_text(enum dcp_ir_place place);
const char *dcp_dtype_text(enum dcp_dtype dtype);
unsigned dcp_dtype_bytes(enum dcp_dtype dtype);
const char *dcp_reduction_text(enum dcp_reduction reduction);

/* --- ir_verify.c --------------------------------------------------------- */

struct dcp_ir_fault {
    enum { DCP_FAULT_GRAPH, DCP_FAULT_BUFFER, DCP_FAULT_KERNEL,
           DCP_FAULT_NODE } where;
    uint32_t index;
    char text[104];
};

/* Broken invariants, in order of finding; at most `room` are kept, all are
 * counted. */
struct dcp_ir_faults {
    struct dcp_ir_fault *list;
    uint32_t count, kept, room;
};

/* Checks every invariant; never stops at the first. Two buffers may share a
 * place only if one is freed on the stream on which the next is allocated,
 * and before it. Returns DCP_OK when all
 * hold, DCP_INVALID when `faults` (may be NULL) has some, DCP_NOMEM when it
 * could not finish. n log n in nodes, buffers and references. */
enum dcp_status dcp_ir_verify(const struct dcp_graph *graph,
                              struct dcp_ir_faults *faults);

/* --- ir_print.c ---------------------------------------------------------- */

enum dcp_ir_print_flags {
    DCP_PRINT_NOTES = 1,   /* live ranges, bytes live, times as comments */
    DCP_PRINT_NO_RANK = 2, /* rank=0/world whatever the rank */
};

/* Gets each line with its newline; false ends the printing. */
typedef bool dcp_ir_sink(void *user, const char *line, size_t length);

/* Prints a graph, which may be broken. With `faults` (may be NULL) each line
 * is followed by comments that name what is wrong with it. DCP_OK; DCP_IO when
 * the sink said no; DCP_NOMEM. */
enum dcp_status dcp_ir_print(const struct dcp_graph *graph, unsigned flags,
                             const struct dcp_ir_faults *faults,
                             dcp_ir_sink *sink, void *user);

/* The same into one NUL-terminated text from malloc, which the caller frees;
 * NULL when memory is out. `length` may be NULL. */
char *dcp_ir_print_text(const struct dcp_graph *graph, unsigned flags,
                        size_t *length);

/* --- ir_parse.c ---------------------------------------------------------- */

struct dcp_ir_error {
    unsigned line;
    char text[256]; /* "file:line: message", no newline */
};

/* Reads the text form; `file` is for messages only. On success *out is a new
 * graph, which need not be valid (dcp_ir_verify). Else *out is untouched and
 * `error` says what is wrong: DCP_SYNTAX or DCP_NOMEM. Takes memory in
 * proportion to `length`, whatever numbers the text holds. A comment that
 * begins "# N ns" sets the node's gpu_ns. */
enum dcp_status dcp_ir_parse(const char *text, size_t length, const char *file,
                             struct dcp_graph **out,
                             struct dcp_ir_error *error);

#endif
