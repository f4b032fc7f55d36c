/* SPDX-License-Identifier: Apache-2.0 */
/* The iteration as a circle, cut elsewhere. */
#include "config.h"

#include "tests/check_replay.h"

#include "capture/lift.h"
#include "capture/log.h"
#include "capture/role.h"
#include "passes/pass.h"
#include "replay/turn.h"
#include "src/ir_live.h"
#include "tests/recorded.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void
check_valid(const struct dcp_graph *graph)
{
    struct dcp_ir_fault list[4];
    struct dcp_ir_faults faults = {.list = list, .room = 4};

    ck_assert_msg(dcp_ir_verify(graph, &faults) == DCP_OK, "%s",
                  faults.kept ? list[0].text : "");
}

static struct dcp_graph *
parsed(const char *text)
{
    struct dcp_graph *graph = NULL;
    struct dcp_ir_error error = {0};

    dcp_ir_parse(text, strlen(text), "test", &graph, &error);
    ck_assert_msg(graph, "%s", error.text);
    check_valid(graph);
    return graph;
}

static void
check_turn(const char *before, const struct dcp_wrap *wraps, uint32_t count,
           uint32_t origin, const char *after)
{
    struct dcp_graph *graph = parsed(before);

    if (origin == UINT32_MAX)
        origin = dcp_turn_origin(graph, wraps, count);
    struct dcp_graph *turned = dcp_turn(graph, origin, wraps, count);
    ck_assert_ptr_nonnull(turned);
    check_valid(turned);
    char *text = dcp_ir_print_text(turned, 0, NULL);
    ck_assert_str_eq(text, after);
    free(text);
    dcp_graph_destroy(turned);
    dcp_graph_destroy(graph);
}

#define HEAD "step key=1 rank=0/1 streams=1 events=0 micro=1\n"

/* %0 is what the iteration before left of %2: they become one. */
START_TEST(a_wrap_is_made_whole)
{
    struct dcp_wrap wrap = {.alloc = 4, .free = 0};

    check_turn("dcprel-ir 1\n" HEAD
               "buf %0 grad bytes=4096\n"
               "buf %1 act bytes=512\n"
               "buf %2 grad bytes=4096\n"
               "fn $0 \"k\" params=0:8\n"
               "n0 free %0 @0 call=0\n"
               "n1 alloc %1 @0 call=1\n"
               "n2 launch $0 @0 rw=%1 call=2\n"
               "n3 free %1 @0 call=3\n"
               "n4 alloc %2 @0 call=4\n"
               "n5 launch $0 @0 rw=%2 call=5\n",
               &wrap, 1, UINT32_MAX,
               "dcprel-ir 1\n" HEAD
               "buf %0 grad bytes=0\n"
               "buf %1 act bytes=512\n"
               "buf %2 grad bytes=4096\n"
               "fn $0 \"k\" params=0:8\n"
               "n0 alloc %1 @0 call=0\n"
               "n1 launch $0 @0 rw=%1 call=1\n"
               "n2 free %1 @0 call=2\n"
               "n3 alloc %2 @0 call=3\n"
               "n4 launch $0 @0 rw=%2 call=4\n"
               "n5 free %2 @0 call=5\n");
}
END_TEST

/* %1 lives across the new cut: its end and its beginning are two buffers. */
START_TEST(a_cut_one_is_split)
{
    check_turn("dcprel-ir 1\n" HEAD
               "buf %0 param bytes=64 persistent\n"
               "buf %1 act bytes=512\n"
               "fn $0 \"k\" params=0:8,8:8\n"
               "n0 alloc %1 @0 call=0\n"
               "n1 launch $0 @0 rw=%1 r=%0:8 call=1\n"
               "n2 launch $0 @0 r=%1 rw=%0:8 call=2\n"
               "n3 free %1 @0 call=3\n",
               NULL, 0, 2,
               "dcprel-ir 1\n" HEAD
               "buf %0 param bytes=64 persistent\n"
               "buf %1 act bytes=512\n"
               "buf %2 act bytes=512\n"
               "fn $0 \"k\" params=0:8,8:8\n"
               "n0 launch $0 @0 r=%1 rw=%0:8 call=0\n"
               "n1 free %1 @0 call=1\n"
               "n2 alloc %2 @0 call=2\n"
               "n3 launch $0 @0 rw=%2 r=%0:8 call=3\n");
}
END_TEST

/* Without a reason to turn, and where turning is not allowed. */
START_TEST(some_are_left_alone)
{
    static const char text[] = "dcprel-ir 1\n"
                               "step key=1 rank=0/1 streams=2 events=1 "
                               "micro=1\n"
                               "buf %0 grad bytes=4096\n"
                               "buf %1 grad bytes=4096\n"
                               "n0 free %0 @0 call=0\n"
                               "n1 record !0 @0 call=1\n"
                               "n2 wait !0 @1 call=2\n"
                               "n3 alloc %1 @0 call=3\n";
    struct dcp_wrap wrap = {.alloc = 3, .free = 0};
    struct dcp_graph *graph = parsed(text);

    ck_assert_uint_eq(dcp_turn_origin(graph, NULL, 0), 0);
    ck_assert_uint_eq(dcp_turn_origin(graph, &wrap, 1), 0);
    struct dcp_graph *turned = dcp_turn(graph, 0, &wrap, 1);
    ck_assert(dcp_ir_equal(turned, graph));
    dcp_graph_destroy(turned);
    dcp_graph_destroy(graph);
}
END_TEST

/* --- any circle ----------------------------------------------------------- */

enum { ARCS = 40, MORE = 60, NODES = 2 * ARCS + MORE };

/* Blocks as arcs of a circle of NODES calls, born before `born` and dead
 * before `dead`'s end; the order as recorded begins at call 0. */
struct circle {
    struct {
        uint32_t born, dead, bytes;
        uint32_t old, young; /* buffers of the graph; equal when not cut */
    } arc[ARCS];
    struct dcp_graph *graph;
    struct dcp_wrap wraps[ARCS];
    uint32_t wrap_count;
};

static bool
lives_at(const struct circle *c, uint32_t a, uint32_t call)
{
    uint32_t born = c->arc[a].born, dead = c->arc[a].dead;

    return born < dead ? call > born && call < dead
                       : call > born || call < dead;
}

/* True when the arc is cut by a cut before `call`. */
static bool
is_cut(const struct circle *c, uint32_t a, uint32_t call)
{
    return lives_at(c, a, call) || call == c->arc[a].dead;
}

static void
launch_add(struct circle *c, uint32_t call, uint64_t *state)
{
    struct dcp_ir_node *node = dcp_ir_add_node(c->graph, DCP_OP_LAUNCH, 0);
    uint32_t count = 0, arcs[ARCS];

    node->call = call;
    node->launch.kernel = 0;
    for (uint32_t a = 0; a < ARCS; a++)
        if (lives_at(c, a, call) && dice(state, 3) == 0)
            arcs[count++] = a;
    struct dcp_ir_ref *refs =
        count ? dcp_ir_add_refs(c->graph, node, count) : NULL;
    for (uint32_t i = 0; i < count; i++) {
        /* The offset says which block it is. */
        bool old = c->arc[arcs[i]].born > c->arc[arcs[i]].dead &&
                   call < c->arc[arcs[i]].dead;
        refs[i] = (struct dcp_ir_ref){
            .buffer = old ? c->arc[arcs[i]].old : c->arc[arcs[i]].young,
            .slot = 8 * i,
            .offset = arcs[i],
            .access = DCP_READ | DCP_WRITE,
        };
    }
}

static void
circle_make(struct circle *c, uint64_t *state)
{
    uint32_t at[NODES];

    memset(c, 0, sizeof *c);
    c->graph = dcp_graph_create();
    dcp_ir_add_stream(c->graph);
    dcp_ir_add_kernel(c->graph, "k", false, NULL, 0);
    for (uint32_t i = 0; i < NODES; i++) {
        uint32_t k = dice(state, i + 1);
        at[i] = at[k];
        at[k] = i;
    }
    for (uint32_t a = 0; a < ARCS; a++) {
        c->arc[a].born = at[2 * a];
        c->arc[a].dead = at[2 * a + 1];
        c->arc[a].bytes = 100 + dice(state, 10000);
        c->arc[a].old = c->arc[a].young = dcp_ir_add_buffer(
            c->graph, DCP_ROLE_ACT, c->arc[a].bytes, false, NULL);
        if (c->arc[a].born < c->arc[a].dead)
            continue;
        c->arc[a].old = dcp_ir_add_buffer(c->graph, DCP_ROLE_ACT,
                                          c->arc[a].bytes, false, NULL);
        c->wraps[c->wrap_count++] =
            (struct dcp_wrap){c->arc[a].born, c->arc[a].dead};
    }
    uint8_t what[NODES] = {0};
    uint32_t who[NODES];
    for (uint32_t a = 0; a < ARCS; a++) {
        what[c->arc[a].born] = DCP_OP_ALLOC + 1;
        what[c->arc[a].dead] = DCP_OP_FREE + 1;
        who[c->arc[a].born] = who[c->arc[a].dead] = a;
    }
    for (uint32_t i = 0; i < NODES; i++) {
        if (!what[i]) {
            launch_add(c, i, state);
            continue;
        }
        struct dcp_ir_node *node =
            dcp_ir_add_node(c->graph, (enum dcp_op)(what[i] - 1), 0);
        node->call = i;
        node->memory.buffer = what[i] - 1 == DCP_OP_ALLOC
                                  ? c->arc[who[i]].young
                                  : c->arc[who[i]].old;
    }
    check_valid(c->graph);
}

static uint64_t
whole_bytes(const struct circle *c, uint32_t cut)
{
    uint64_t bytes = 0;

    for (uint32_t a = 0; a < ARCS; a++)
        if (!is_cut(c, a, cut))
            bytes += c->arc[a].bytes;
    return bytes;
}

/* Each buffer is one block, and a block is one buffer unless it is cut. */
static void
check_identity(const struct circle *c, const struct dcp_graph *turned,
               uint32_t origin)
{
    uint32_t block_of[4 * ARCS], buffers[ARCS] = {0}, births[4 * ARCS] = {0},
        deaths[4 * ARCS] = {0};

    memset(block_of, 0xff, sizeof block_of);
    ck_assert_uint_le(turned->buffer_count, 4 * ARCS);
    for (uint32_t i = 0; i < NODES; i++) {
        const struct dcp_ir_node *x = &turned->nodes[i];
        const struct dcp_ir_node *y =
            &c->graph->nodes[(origin + i) % NODES];
        ck_assert_int_eq(x->op, y->op);
        ck_assert_uint_eq(x->call, i);
        for (uint32_t r = 0; r < x->ref_count; r++) {
            uint32_t b = x->refs[r].buffer;
            uint32_t a = (uint32_t)x->refs[r].offset;
            if (block_of[b] == UINT32_MAX)
                buffers[a]++;
            else
                ck_assert_uint_eq(block_of[b], a);
            block_of[b] = a;
        }
        births[x->memory.buffer % (4 * ARCS)] += x->op == DCP_OP_ALLOC;
        deaths[x->memory.buffer % (4 * ARCS)] += x->op == DCP_OP_FREE;
    }
    uint32_t whole = 0, lives = 0;
    for (uint32_t a = 0; a < ARCS; a++) {
        ck_assert_uint_le(buffers[a], is_cut(c, a, origin) ? 2 : 1);
        whole += !is_cut(c, a, origin);
    }
    for (uint32_t b = 0; b < turned->buffer_count; b++)
        lives += births[b] && deaths[b];
    ck_assert_uint_eq(lives, whole);
}

START_TEST(any_circle)
{
    static struct circle c;
    uint64_t state = (uint64_t)_i * 31 + 7, best = 0;

    circle_make(&c, &state);
    for (uint32_t cut = 0; cut < NODES; cut++)
        if (whole_bytes(&c, cut) > best)
            best = whole_bytes(&c, cut);
    uint32_t origin = dcp_turn_origin(c.graph, c.wraps, c.wrap_count);
    ck_assert_uint_eq(whole_bytes(&c, origin), best);
    for (uint32_t try = 0; try < 10; try++) {
        struct dcp_graph *turned =
            dcp_turn(c.graph, origin, c.wraps, c.wrap_count);
        ck_assert_ptr_nonnull(turned);
        check_valid(turned);
        check_identity(&c, turned, origin);
        dcp_graph_destroy(turned);
        origin = dice(&state, NODES);
    }
    dcp_graph_destroy(c.graph);
}
END_TEST

START_TEST(without_memory)
{
    static struct circle c;
    uint64_t state = 11;
    struct dcp_graph *turned = NULL;
    long n = 0;

    circle_make(&c, &state);
    for (; !turned; n++) {
        dcp_arena_fail_after(n);
        turned = dcp_turn(c.graph, 5, c.wraps, c.wrap_count);
        dcp_arena_fail_after(-1);
    }
    ck_assert_int_gt(n, 20);
    check_identity(&c, turned, 5);
    dcp_graph_destroy(turned);
    dcp_graph_destroy(c.graph);
}
END_TEST

/* --- a recorded iteration ------------------------------------------------- */

static struct dcp_graph *
recorded(const char *file)
{
    const char *source = getenv("srcdir");
    struct dcp_arena arena = {0};
    struct dcp_access_table access = {0};
    struct dcp_lift_options options = {.access = &access};
    struct dcp_graph *graph;
    struct dcp_period p;
    struct dcp_log log;
    uint32_t line, first, last;
    char path[4096];

    snprintf(path, sizeof path, "%s/tests/data/%s", source ? source : ".",
             file);
    int fd = open(path, O_RDONLY);
    ck_assert_msg(fd >= 0, "%s", path);
    size_t bytes = (size_t)lseek(fd, 0, SEEK_END);
    char *text = malloc(bytes + 1);
    ck_assert_int_eq(pread(fd, text, bytes, 0), bytes);
    close(fd);
    ck_assert_int_eq(dcp_log_parse(text, bytes, &arena, &log, &access, &line),
                     DCP_OK);
    ck_assert(recorded_find(&log, &p, &arena, &first, &last, &options.since));
    ck_assert_int_eq(dcp_lift(&log, first, last, &options, &graph), DCP_OK);
    ck_assert_int_eq(dcp_role_fill(graph), DCP_OK);
    dcp_access_release(&access);
    dcp_arena_release(&arena);
    free(text);
    return graph;
}

/* What the next iteration frees of this one's blocks, going by size. */
static uint32_t
wraps_of(const struct dcp_graph *graph, struct dcp_wrap *wraps)
{
    uint32_t *birth = malloc(graph->buffer_count * sizeof *birth), count = 0;
    bool *done = calloc(graph->buffer_count, sizeof *done);

    memset(birth, 0xff, graph->buffer_count * sizeof *birth);
    for (uint32_t n = 0; n < graph->node_count; n++)
        if (graph->nodes[n].op == DCP_OP_ALLOC)
            birth[graph->nodes[n].memory.buffer] = n;
    for (uint32_t n = 0; n < graph->node_count; n++)
        if (graph->nodes[n].op == DCP_OP_FREE)
            done[graph->nodes[n].memory.buffer] = true;
    for (uint32_t n = 0; n < graph->node_count; n++) {
        uint32_t old = graph->nodes[n].memory.buffer;
        if (graph->nodes[n].op != DCP_OP_FREE || birth[old] != UINT32_MAX)
            continue;
        for (uint32_t b = 0; b < graph->buffer_count; b++)
            if (birth[b] != UINT32_MAX && birth[b] > n && !done[b] &&
                graph->buffers[b].bytes == graph->buffers[old].bytes) {
                done[b] = true;
                wraps[count++] = (struct dcp_wrap){birth[b], n};
                break;
            }
    }
    free(birth);
    free(done);
    return count;
}

static uint32_t
placed(struct dcp_graph **graph, double *ratio)
{
    struct dcp_pass_ctx ctx = dcp_pass_ctx_default();
    uint32_t count = 0;

    ck_assert(dcp_pass_run(graph, &ctx, NULL, NULL, NULL));
    struct dcp_graph *g = dcp_graph_clone(*graph);
    for (uint32_t b = 0; b < g->buffer_count; b++) {
        bool is_placed = g->buffers[b].place != DCP_NO_PLACE;
        count += is_placed;
        if (!is_placed)
            g->buffers[b].bytes = 0;
    }
    *ratio = (double)g->arena_bytes / (double)dcp_live_peak(g);
    dcp_graph_destroy(g);
    return count;
}

/* ResNet frees the gradients of the step before in the middle of a step; cut
 * there, all of them can be placed. */
START_TEST(recorded_iterations)
{
    static const struct {
        const char *file;
        uint32_t wraps, more;
    } cases[] = {
        {"resnet.log", 62, 62}, {"varlen.log", 39, 39}, {"llama.log", 0, 0}};
    struct dcp_graph *graph = recorded(cases[_i].file);
    struct dcp_wrap *wraps = malloc(graph->node_count * sizeof *wraps);
    uint32_t count = wraps_of(graph, wraps);
    double ratio;

    ck_assert_uint_ge(count, cases[_i].wraps);
    uint32_t origin = dcp_turn_origin(graph, wraps, count);
    struct dcp_graph *turned = dcp_turn(graph, origin, wraps, count);
    check_valid(turned);
    uint32_t before = placed(&graph, &ratio);
    uint32_t after = placed(&turned, &ratio);
    ck_assert_uint_ge(after, before + cases[_i].more);
    ck_assert_msg(ratio >= 1 && ratio <= 1.10, "%s: %.3f of the peak",
                  cases[_i].file, ratio);
    free(wraps);
    dcp_graph_destroy(turned);
    dcp_graph_destroy(graph);
}
END_TEST

void
add_turn(Suite *s)
{
    TCase *t = tcase_create("turn");

    tcase_set_timeout(t, 60);
    tcase_add_test(t, a_wrap_is_made_whole);
    tcase_add_test(t, a_cut_one_is_split);
    tcase_add_test(t, some_are_left_alone);
    tcase_add_loop_test(t, any_circle, 0, 40);
    tcase_add_test(t, without_memory);
    tcase_add_loop_test(t, recorded_iterations, 0, 3);
    suite_add_tcase(s, t);
}
