/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "tests/trace_scene.h"

#include "src/ir.h"
#include "src/trace.h"

#include <stdlib.h>
#include <string.h>

#define MS 1000000ull
#define MIB (1ull << 20)
#define START_NS 1000000000000ull

static const char schema[] =
#define EVENT(name, ...) #name " " #__VA_ARGS__ "\n"
#include "src/trace.def"
#undef EVENT
    ;

static FILE *out;
static uint64_t now;
static bool slow;

static void
put(enum dcp_trace_kind kind, const void *fields, size_t count,
    const char *payload, size_t bytes)
{
    size_t room = 4096 + bytes, at = sizeof(struct dcp_trace_record);
    uint8_t *buffer = calloc(1, room);
    struct dcp_trace_record record = {
        .time_ns = now, .kind = (uint16_t)kind, .count = (uint16_t)count,
        .payload = (uint32_t)bytes};

    for (size_t i = 0; i < count; i++) {
        uint64_t value = ((const uint64_t *)fields)[i];
        for (; value >= 128; value >>= 7)
            buffer[at++] = (uint8_t)(value | 128);
        buffer[at++] = (uint8_t)value;
    }
    if (bytes)
        memcpy(buffer + at, payload, bytes);
    at += bytes;
    record.bytes = (uint32_t)at;
    memcpy(buffer, &record, sizeof record);
    record.check = dcp_trace_check(buffer + 8, at - 8);
    memcpy(buffer, &record, sizeof record);
    fwrite(buffer, 1, (at + 7) & ~(size_t)7, out);
    free(buffer);
}

#define PUT(name, payload, bytes, ...)                                         \
    put(DCP_TRACE_##name, &(struct dcp_trace_##name){__VA_ARGS__},             \
        sizeof(struct dcp_trace_##name) / sizeof(uint64_t), payload, bytes)
#define TEXT(name, payload, ...)                                               \
    PUT(name, payload, strlen(payload), __VA_ARGS__)

static void
put_head(uint32_t rank, uint32_t world)
{
    static uint8_t head[DCP_TRACE_HEAD];
    struct dcp_trace_head h = {
        .magic = DCP_TRACE_MAGIC, .version = DCP_TRACE_VERSION,
        .schema_bytes = sizeof schema - 1, .rank = rank, .world = world,
        .pid = 4000 + rank, .start_ns = START_NS,
        .wall_ns = 1750000000ull * 1000 * MS + rank * 3 * MS};

    memcpy(head, &h, sizeof h);
    memcpy(head + sizeof h, schema, sizeof schema - 1);
    fwrite(head, 1, sizeof head, out);
    now = START_NS;
}

/* --- the run ------------------------------------------------------------- */

enum { EMBED = 1, WEIGHT, MOMENT, SPEED, SCRATCH, FIRST_SHORT = 100 };

static const char *const stacks[] = {
    "at::empty+0x1c\nEmbedding.__init__+0x40\nmain+0x20",
    "at::empty+0x1c\nLinear.__init__+0x88\nmain+0x20",
    "at::zeros_like+0x9\nAdam.step+0x120\nmain+0x88",
    "at::mm+0x33\nLinear.forward+0x10\nmain+0x60",
    "at::mm_backward+0x7\nloss.backward+0x5\nmain+0x70",
};

static const char graph_lifted[] =
    "dcprel-ir 1\n"
    "step key=9f3c41d0 rank=0/1 streams=1\n"
    "buf %0 param bytes=67108864 persistent \"embed\"\n"
    "buf %1 param bytes=33554432 persistent \"weight\"\n"
    "buf %2 state bytes=134217728 persistent \"moment\"\n"
    "buf %3 act bytes=16777216\n"
    "buf %4 act bytes=8388608\n"
    "buf %5 grad bytes=33554432\n"
    "fn $0 \"embed_forward\" params=0:8,8:8\n"
    "fn $1 \"gemm_128x64\" params=0:8,8:8,16:8\n"
    "fn $2 \"adam\" params=0:8,8:8,16:8\n"
    "mark part=forward micro=0\n"
    "n0 alloc %3 @0 call=0\n"
    "n1 launch $0 @0 grid=64,1,1 block=256,1,1 r=%0 w=%3:8 call=1\n"
    "n2 alloc %4 @0 call=2\n"
    "n3 launch $1 @0 grid=32,8,1 block=256,1,1 r=%3 r=%1:8 w=%4:16 call=3\n"
    "mark part=backward micro=0\n"
    "n4 alloc %5 @0 call=4\n"
    "n5 launch $1 @0 grid=32,8,1 block=256,1,1 r=%3 r=%4:8 w=%5:16 call=5\n"
    "n6 free %4 @0 call=6\n"
    "n7 free %3 @0 call=7\n"
    "mark part=update micro=0\n"
    "n8 launch $2 @0 grid=512,1,1 block=512,1,1 rw=%1 r=%5:8 rw=%2:16 call=8\n"
    "n9 free %5 @0 call=9\n"
    "n10 copy @0 bytes=4 to=pageable sync r=%1:8 call=10\n";

static void
put_setup(uint32_t rank, uint32_t world, bool given)
{
    static const char program[] = "python3\0train.py\0--layers\0002";

    PUT(START, program, sizeof program, .pid = 4000 + rank, .rank = rank,
        .world = world, .wall_ns = 1750000000ull * 1000 * MS);
    if (given)
        TEXT(CONFIG, "{\n  \"dcprel\": { \"memory_budget\": \"60%\" }\n}\n",
             .bytes = 46);
    TEXT(DEVICE, "Invented GPU 80", .total_bytes = 80ull << 30,
         .sm_count = 132, .granularity = 2 * MIB,
         .budget_bytes = given ? 400 * MIB : 0);
    TEXT(PHASE, "", .phase = 0);
    for (uint64_t i = 0; i < sizeof stacks / sizeof *stacks; i++)
        TEXT(STACK, stacks[i], .stack = i + 1);
    TEXT(KERNEL, "embed_forward", .kernel = 1, .params_bytes = 16);
    TEXT(KERNEL, "gemm_128x64", .kernel = 2, .params_bytes = 24);
    TEXT(KERNEL, "adam", .kernel = 3, .params_bytes = 24);
    now += 40 * MS;
    PUT(ALLOC, NULL, 0, .block = EMBED, .address = 0x700000000000,
        .bytes = 64 * MIB, .stack = 1);
    PUT(ALLOC, NULL, 0, .block = WEIGHT, .address = 0x700004000000,
        .bytes = 32 * MIB, .stack = 2);
    now += 10 * MS;
}

/* One eager iteration; the optimizer makes its states in the first. */
static void
put_eager(uint64_t n, uint64_t ns)
{
    uint64_t begin = now, block = FIRST_SHORT + 10 * n;

    PUT(ALLOC, NULL, 0, .block = block, .bytes = 16 * MIB, .stack = 4,
        .phase = 1);
    now += ns / 4;
    PUT(ALLOC, NULL, 0, .block = block + 1, .bytes = 8 * MIB, .stack = 4,
        .phase = 1);
    now += ns / 4;
    PUT(ALLOC, NULL, 0, .block = block + 2, .bytes = 32 * MIB, .stack = 5,
        .phase = 1);
    now += ns / 4;
    PUT(FREE, NULL, 0, .block = block + 1);
    PUT(FREE, NULL, 0, .block = block);
    if (n == 0) {
        PUT(ALLOC, NULL, 0, .block = MOMENT, .bytes = 128 * MIB, .stack = 3);
        PUT(ALLOC, NULL, 0, .block = SPEED, .bytes = 128 * MIB, .stack = 3,
            .host = slow);
        PUT(ALLOC, NULL, 0, .block = SCRATCH, .bytes = 3 * MIB + 17);
    }
    now += ns / 4;
    PUT(FREE, NULL, 0, .block = block + 2);
    PUT(ITERATION, NULL, 0, .number = n, .begin_ns = begin, .end_ns = now,
        .calls = 2000 + n);
    PUT(MEMORY, NULL, 0, .used = 300 * MIB, .reserved = 310 * MIB,
        .host = 64 * MIB);
}

static void
put_followed(uint64_t n, uint64_t ns)
{
    uint64_t begin = now;

    now += ns;
    PUT(ITERATION, NULL, 0, .number = n, .begin_ns = begin, .end_ns = now,
        .followed = 1, .calls = 2000, .swallowed = 1990, .updates = 12,
        .launches = 4, .variant = 1);
}

static void
put_graph(void)
{
    static const uint64_t times[] = {0,       120000, 0, 400000, 0, 410000,
                                     0,       0,      900000, 0, 3000};
    uint64_t block = FIRST_SHORT + 30;
    char pass[4096] = "place";
    size_t length;

    now += 150 * MS;
    TEXT(GRAPH, graph_lifted, .graph = 1, .nodes = 11, .segments = 2,
         .arena_bytes = 58 * MIB, .build_ns = 142 * MS);
    const char *next = strstr(graph_lifted, "\nbuf %4");
    length = 6 + (size_t)snprintf(pass + 6, sizeof pass - 6, "%.*s at=0%s",
                                  (int)(next - graph_lifted), graph_lifted,
                                  next);
    now += 2 * MS;
    PUT(PASS, "check", 6, .graph = 1, .changed = 0, .ns = MS / 10);
    PUT(PASS, pass, length, .graph = 1, .changed = 1, .ns = 2 * MS);
    now += 8 * MS;
    TEXT(SEGMENT, "", .graph = 1, .first = 0, .last = 9, .nodes = 4,
         .build_ns = 5 * MS);
    TEXT(SEGMENT, "", .graph = 1, .first = 10, .last = 10, .nodes = 1,
         .build_ns = MS);
    for (uint64_t i = 0; i < 11; i++)
        if (times[i])
            PUT(NODE_TIME, NULL, 0, .graph = 1, .node = i,
                .gpu_ns = times[i] * (slow ? 2 : 1));
    PUT(ROLE, NULL, 0, .block = EMBED, .role = DCP_ROLE_PARAM);
    PUT(BLOCK_USE, NULL, 0, .block = EMBED, .graph = 1, .buffer = 0);
    PUT(BLOCK_USE, NULL, 0, .block = WEIGHT, .graph = 1, .buffer = 1);
    PUT(BLOCK_USE, NULL, 0, .block = MOMENT, .graph = 1, .buffer = 2);
    for (uint64_t i = 0; i < 3; i++)
        PUT(BLOCK_USE, NULL, 0, .block = block + i, .graph = 1,
            .buffer = 3 + i);
    PUT(VERIFY, NULL, 0, .graph = 1, .segment = 0, .equal = 1);
    PUT(VERIFY, NULL, 0, .graph = 1, .segment = 1, .equal = 1);
    TEXT(PHASE, "", .phase = 2);
}

static void
put_calls(void)
{
    TEXT(CALL, "cuLaunchKernel", .symbol = 1, .count = 38012,
         .total_ns = 90 * MS);
    TEXT(CALL, "cuMemAllocAsync", .symbol = 2, .count = 9120,
         .total_ns = 12 * MS);
    TEXT(CALL, "cuEventRecord", .symbol = 3, .count = 40, .total_ns = 0);
}

static void
scene_follow(uint32_t rank, uint32_t world)
{
    put_setup(rank, world, true);
    TEXT(PHASE, "", .phase = 1);
    for (uint64_t n = 0; n < 4; n++)
        put_eager(n, (n == 0 ? 400 : 60 + n) * MS);
    put_graph();
    for (uint64_t n = 4; n < 24; n++) {
        if (n == 12 || n == 13) {
            TEXT(UNFOLLOWED, "the program launched softmax where the "
                 "recording has gemm_128x64", .number = n, .position = 731);
            put_eager(n, 62 * MS);
        } else if (n == 20) {
            TEXT(UNFOLLOWED, "an allocation of 4096 bytes, recorded as 2048",
                 .number = n, .position = 9);
            put_eager(n, 62 * MS);
        } else {
            put_followed(n, slow ? 44 * MS : 33 * MS + n * 1000);
        }
    }
    PUT(ALLOC, NULL, 0, .block = 7, .bytes = 32 * MIB, .stack = 3, .host = 1);
    TEXT(LOG, "memory budget reached: 32 MiB of states go to host memory",
         .level = 1);
    put_calls();
    PUT(END, NULL, 0, .iterations = 24, .followed = 17);
}

static void
scene_watch(uint32_t rank, uint32_t world)
{
    put_setup(rank, world, false);
    for (uint64_t n = 0; n < 3; n++)
        put_eager(n, 50 * MS);
}

bool
trace_scene_write(const char *scene, FILE *file, uint32_t rank,
                  uint32_t world)
{
    out = file;
    put_head(rank, world);
    slow = !strcmp(scene, "slow");
    if (!strcmp(scene, "follow") || slow)
        scene_follow(rank, world);
    else if (!strcmp(scene, "watch"))
        scene_watch(rank, world);
    else if (strcmp(scene, "empty") != 0)
        return false;
    return true;
}
