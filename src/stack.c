/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "src/stack.h"

#include "src/arena.h"
#include "src/lock.h"
#include "src/log.h"
#include "src/stack_name.h"
#include "src/table.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <string.h>

/* The header is for the type alone: nothing of it may be linked. */
#define UNW_LOCAL_ONLY
#include <libunwind.h>

enum { TEXT_BYTES = 16384, NAME_BYTES = 512 };

struct stack {
    UT_hash_handle hh;
    uint64_t number;
    void *frames[]; /* the key */
};

struct name {
    UT_hash_handle hh;
    void *frame; /* the key */
    bool own;    /* of this library */
    const char *text;
};

static struct {
    __typeof__(unw_backtrace) *backtrace;
    struct dcp_trace *trace;
    uint32_t every;
    atomic_uint count;
    struct dcp_lock lock; /* for what follows */
    struct dcp_arena arena;
    struct stack *stacks;
    struct name *names;
    uint64_t last;
    char text[TEXT_BYTES];
} own;

/* ThreadSanitizer ends before a thread's last destructors, and libunwind has
 * one that takes a mutex. */
#if defined(__SANITIZE_THREAD__)
enum { THREADS_END_BADLY = 1 };
#elif defined(__has_feature)
enum { THREADS_END_BADLY = __has_feature(thread_sanitizer) };
#else
enum { THREADS_END_BADLY = 0 };
#endif

bool
dcp_stack_begin(struct dcp_trace *trace, uint32_t every)
{
    void *library = NULL, *found = NULL;

    if (every == 0)
        return true;
    if (!own.backtrace) {
        if (!THREADS_END_BADLY)
            library = dlopen("libunwind.so.8", RTLD_LAZY | RTLD_LOCAL);
        if (library)
            found = dlsym(library, "unw_backtrace");
        if (!found) {
            dcp_info("no call stacks: libunwind.so.8 cannot be opened");
            return false;
        }
        memcpy(&own.backtrace, &found, sizeof found);
    }
    own.trace = trace;
    own.every = every;
    return true;
}

void
dcp_stack_end(void)
{
    own.every = 0;
    HASH_CLEAR(hh, own.stacks);
    HASH_CLEAR(hh, own.names);
    dcp_arena_release(&own.arena);
    own.last = 0;
}

/* --- names: the lock is held --------------------------------------------- */

static const struct name *
name_of(void *frame)
{
    struct name *name;
    char text[NAME_BYTES];

    HASH_FIND(hh, own.names, &frame, sizeof frame, name);
    if (name)
        return name;
    name = dcp_arena_alloc(&own.arena, sizeof *name);
    if (!name)
        return NULL;
    name->own = dcp_stack_name(frame, text, sizeof text);
    name->frame = frame;
    name->text = dcp_arena_strdup(&own.arena, text);
    if (!name->text)
        return NULL;
    dcp_table_oom = NULL;
    HASH_ADD(hh, own.names, frame, sizeof name->frame, name);
    return name; /* if it found no place it is looked up anew next time */
}

/* One frame a line, into own.text; the length. */
static size_t
text_make(void *const *frames, unsigned count)
{
    size_t used = 0;
    bool inside = true;

    for (unsigned i = 0; i < count; i++) {
        const struct name *name = name_of(frames[i]);

        if (!name)
            break;
        inside = inside && name->own;
        if (inside)
            continue;
        size_t length = strlen(name->text);
        if (used + length + 2 > TEXT_BYTES)
            break;
        if (used)
            own.text[used++] = '\n';
        memcpy(own.text + used, name->text, length);
        used += length;
    }
    return used;
}

/* --- stacks -------------------------------------------------------------- */

static uint64_t
stack_add(void *const *frames, unsigned count)
{
    size_t bytes = count * sizeof *frames;

    if (own.last == DCP_STACK_LIMIT) {
        own.last++; /* say it once */
        dcp_info("more than %d different call stacks: new ones are left out",
                 DCP_STACK_LIMIT);
    }
    if (own.last > DCP_STACK_LIMIT)
        return 0;
    struct stack *stack = dcp_arena_alloc(&own.arena, sizeof *stack + bytes);
    if (!stack)
        return 0;
    memcpy(stack->frames, frames, bytes);
    stack->number = own.last + 1;
    dcp_table_oom = NULL;
    HASH_ADD_KEYPTR(hh, own.stacks, stack->frames, bytes, stack);
    if (dcp_table_oom)
        return 0;
    own.last++;
    if (own.trace) {
        size_t length = text_make(frames, count);
        dcp_trace_event(own.trace, STACK, own.text, length,
                        .stack = stack->number);
    }
    return stack->number;
}

uint64_t
dcp_stack_take(unsigned skip)
{
    void *frames[DCP_STACK_DEPTH + 1];
    struct stack *stack;
    uint64_t number;

    if (own.every == 0 || !own.backtrace ||
        atomic_fetch_add_explicit(&own.count, 1, memory_order_relaxed) %
                own.every !=
            0)
        return 0;
    int count = own.backtrace(frames, DCP_STACK_DEPTH + 1);
    skip++; /* this function */
    if (count <= 0 || (unsigned)count <= skip)
        return 0;
    unsigned rest = (unsigned)count - skip;
    dcp_lock_take(&own.lock);
    HASH_FIND(hh, own.stacks, frames + skip, rest * sizeof *frames, stack);
    number = stack ? stack->number : stack_add(frames + skip, rest);
    dcp_lock_give(&own.lock);
    return number;
}
