/* SPDX-License-Identifier: Apache-2.0 */
/* The door to the driver. hook.def holds one row a driver function; from it
 * come the ids, the argument structs, the typed originals and the exported
 * bodies. This header is all that the folders above need to know:
 *
 *   program -> exported body -> sink.before -> original, or the heap
 *                                            -> sink.after
 *
 * A row's kind says what its body does:
 *   PASS   goes to the original at once; the sink does not see it
 *   WATCH  goes through the sink
 *   OWN    goes through the sink, and where the heap is on, dcp_own_<symbol>
 *          (heap_entry.c, visible.c) stands in the place of the original
 *   DOOR   has a body of its own (hook_init.c, hook_lookup.c): cuInit and the
 *          functions that hand out functions; the sink does not see it
 *
 * A row's canon names the modern, stream-suffix-free symbol with the same
 * arguments and meaning (cuLaunchKernel_ptsz -> cuLaunchKernel); old ABI
 * versions whose arguments differ are their own canon. A sink switches on
 * canon and casts args to struct dcp_args_<canon>. `ptds` says that a NULL
 * stream means the per-thread stream. */
#ifndef DCP_INTERCEPT_HOOK_H
#define DCP_INTERCEPT_HOOK_H

#include "intercept/hook_cuda.h"

#include <stdbool.h>
#include <stdint.h>

enum dcp_hook_kind {
    DCP_HOOK_PASS,
    DCP_HOOK_WATCH,
    DCP_HOOK_OWN,
    DCP_HOOK_DOOR,
};

/* What a call does, seen from the order of work on the GPU. */
enum dcp_hook_class {
    DCP_CLASS_INIT,    /* cuInit, contexts: no GPU work */
    DCP_CLASS_ABOUT,   /* answers a question; neither waits nor enqueues */
    DCP_CLASS_ALLOC,   /* gives memory (stream-ordered or not) */
    DCP_CLASS_FREE,    /* takes memory back */
    DCP_CLASS_MAP,     /* reserves, creates, maps, imports, registers */
    DCP_CLASS_COPY,    /* enqueues a copy; may also wait for it */
    DCP_CLASS_FILL,    /* enqueues a memset */
    DCP_CLASS_LAUNCH,  /* enqueues a kernel or a host function */
    DCP_CLASS_RECORD,  /* records an event */
    DCP_CLASS_DEPEND,  /* a stream waits (event, value, semaphore) */
    DCP_CLASS_QUERY,   /* asks whether work is done */
    DCP_CLASS_WAIT,    /* the host waits for the GPU */
    DCP_CLASS_CAPTURE, /* begins, joins, asks about or ends a capture */
    DCP_CLASS_GRAPH,   /* launches or uploads a graph */
    DCP_CLASS_BUILD,   /* edits or instantiates a graph; no GPU work */
    DCP_CLASS_MODULE,  /* loads code or hands out functions */
    DCP_CLASS_UNLOAD,  /* unloads code, destroys a context or a stream */
};

enum dcp_hook_id {
#define ROW(kind, class, symbol, canon, ptds, args) DCP_HOOK_##symbol,
#include "intercept/hook.def"
#undef ROW
    DCP_HOOK_COUNT
};

struct dcp_hook_info {
    const char *symbol;
    uint16_t id;    /* enum dcp_hook_id of this row */
    uint16_t canon; /* enum dcp_hook_id of the canonical row */
    uint8_t kind;   /* enum dcp_hook_kind */
    uint8_t class;  /* enum dcp_hook_class */
    uint8_t ptds;   /* 1: a NULL stream is the per-thread stream */
};

extern const struct dcp_hook_info dcp_hook_info[DCP_HOOK_COUNT];

/* struct dcp_args_<symbol>: the arguments by name, in order.
 * struct dcp_real: one typed pointer per row, named like the symbol; NULL
 * where the driver lacks it. Filled once by dcp_hook_resolve. */
#include "intercept/hook_args.h"

extern struct dcp_real dcp_real;

/* Who listens. Both run in the calling thread, under the recursion guard:
 * driver calls that they make through dcp_real never come back to a sink, nor
 * do calls that the driver makes meanwhile in the same thread. Both must be
 * quick, and must not throw or longjmp. */
struct dcp_sink {
    /* Before the call. true: the call is swallowed, *result is what the
     * program gets, and neither the original nor after() runs. */
    bool (*before)(const struct dcp_hook_info *info, void *args,
                   CUresult *result);
    /* After the original, with its result, which after() may replace. Not
     * called when before() swallowed. */
    void (*after)(const struct dcp_hook_info *info, void *args,
                  CUresult *result);
};

/* Installs the one listener; NULL turns every hook into a pass-through (but for
 * the OWN bodies: the heap's blocks still have to be freed by the heap). The
 * struct must live for ever. Any thread. */
void dcp_hook_listen(const struct dcp_sink *sink);

/* Finds libcuda.so.1 (the copy already loaded is preferred) and resolves the
 * originals; the first call of any hook does it. Never calls cuInit. Returns
 * 0, or -1 when there is no driver. */
int dcp_hook_resolve(void);

/* Where a thread of the library's own runs: no sink sees its calls. Nests. OWN
 * bodies go on standing for the originals, since other threads may free what is
 * allocated here. */
void dcp_hook_mute(void);
void dcp_hook_unmute(void);

/* Turns the heap's OWN bodies on (once, before the first allocation). */
void dcp_hook_own(bool on);

/* `fn` runs once, in the program's thread, right before the program's first
 * cuInit reaches the driver. The other `fn` gets the result of that call and,
 * as long as it was an error, of the next ones. Both run under the recursion
 * guard. To be set in a constructor. A child forked after a successful cuInit
 * only passes calls through; one forked before starts anew. */
void dcp_hook_at_init(void (*fn)(void));
void dcp_hook_at_init_done(void (*fn)(CUresult result));

/* The stream a call names, with NULL and the two special handles made one of
 * CU_STREAM_LEGACY, CU_STREAM_PER_THREAD or a created stream. */
static inline CUstream
dcp_hook_stream(const struct dcp_hook_info *info, CUstream stream)
{
    if (stream == NULL)
        return info->ptds ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;
    return stream;
}

#endif
