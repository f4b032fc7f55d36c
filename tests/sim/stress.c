/* SPDX-License-Identifier: Apache-2.0 */
/* stress IMAGE [SEED [STEPS]]: random work on several buffers and streams,
 * ordered by nothing but what each piece needs (events, the legacy stream,
 * stream order, captured graphs), compared with the same work done in program
 * order on the host. A driver, or something between it and the program, that
 * orders too little gives other numbers. All sums are of small integers, so
 * floats are exact. */
#include <cuda.h>

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BUFFERS 8
#define STREAMS 5 /* two blocking, two not, the legacy one */
#define COUNT 64

struct buffer {
    CUdeviceptr at;
    float host[COUNT];     /* what it must hold in the end */
    CUevent written[2];    /* in turn, so that no wait sees a later record */
    int turn, writer;      /* the stream of the last write */
    bool fresh;            /* written since the last synchronize */
    CUevent read[STREAMS];
    bool reading[STREAMS];
    float *pinned;
};

static struct buffer buffers[BUFFERS];
static CUstream streams[STREAMS];
static CUfunction axpy, fill;
static uint64_t state;
static float pageable[COUNT];

static void
check(CUresult result, const char *what)
{
    if (result == CUDA_SUCCESS)
        return;
    printf("%s %d\n", what, (int)result);
    exit(1);
}

#define CU(call) check(call, #call)

static unsigned
pick(unsigned count)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (unsigned)((state >> 20) % count);
}

/* Work on stream b comes after earlier work on stream a by itself: it is the
 * same stream, or one is the legacy stream and the other a blocking one. */
static bool
implied(int a, int b)
{
    return a == b || (a == 4 && b < 2) || (b == 4 && a < 2);
}

/* Before work on stream `s` that reads or writes a buffer. */
static void
come_after(struct buffer *b, int s, bool write)
{
    if (b->fresh && !implied(b->writer, s))
        CU(cuStreamWaitEvent(streams[s], b->written[b->turn], 0));
    for (int i = 0; write && i < STREAMS; i++) {
        if (b->reading[i] && !implied(i, s))
            CU(cuStreamWaitEvent(streams[s], b->read[i], 0));
        b->reading[i] = false;
    }
}

static void
note_read(struct buffer *b, int s)
{
    CU(cuEventRecord(b->read[s], streams[s]));
    b->reading[s] = true;
}

static void
note_written(struct buffer *b, int s)
{
    b->turn = !b->turn;
    b->writer = s;
    CU(cuEventRecord(b->written[b->turn], streams[s]));
    b->fresh = true;
}

static void
launch_axpy(int s, struct buffer *y, float a, struct buffer *x)
{
    int n = COUNT;
    void *params[] = {&y->at, &a, &x->at, &n};
    CU(cuLaunchKernel(axpy, 1, 1, 1, COUNT, 1, 1, 0, streams[s], params, NULL));
}

static float
wrap(float value)
{
    return value > 100000 || value < -100000 ? 1 : value;
}

static void
do_axpy(int s)
{
    struct buffer *y = &buffers[pick(BUFFERS)], *x = &buffers[pick(BUFFERS)];
    float a = (float)pick(3) - 1;
    if (x == y)
        return;
    for (int i = 0; i < COUNT; i++)
        if (wrap(y->host[i] + a * x->host[i]) != y->host[i] + a * x->host[i])
            return; /* keep the numbers small */
    come_after(y, s, true);
    come_after(x, s, false);
    launch_axpy(s, y, a, x);
    for (int i = 0; i < COUNT; i++)
        y->host[i] += a * x->host[i];
    note_read(x, s);
    note_written(y, s);
}

static void
do_copy(int s)
{
    struct buffer *y = &buffers[pick(BUFFERS)], *x = &buffers[pick(BUFFERS)];
    if (x == y)
        return;
    come_after(y, s, true);
    come_after(x, s, false);
    CU(cuMemcpyDtoDAsync(y->at, x->at, sizeof y->host, streams[s]));
    memcpy(y->host, x->host, sizeof y->host);
    note_read(x, s);
    note_written(y, s);
}

static void
do_fill(int s)
{
    struct buffer *y = &buffers[pick(BUFFERS)];
    float value = (float)pick(100);
    int n = COUNT;
    void *params[] = {&y->at, &value, &n};
    come_after(y, s, true);
    CU(cuLaunchKernel(fill, 1, 1, 1, COUNT, 1, 1, 0, streams[s], params, NULL));
    for (int i = 0; i < COUNT; i++)
        y->host[i] = value;
    note_written(y, s);
}

/* The source is spoilt as soon as the call is back. */
static void
do_upload(int s)
{
    struct buffer *y = &buffers[pick(BUFFERS)];
    for (int i = 0; i < COUNT; i++)
        y->host[i] = pageable[i] = (float)pick(50);
    come_after(y, s, true);
    CU(cuMemcpyHtoDAsync(y->at, pageable, sizeof pageable, streams[s]));
    memset(pageable, 0xff, sizeof pageable);
    note_written(y, s);
}

static bool
compare(const float *have, const struct buffer *b, const char *what)
{
    for (int i = 0; i < COUNT; i++) {
        if (have[i] == b->host[i])
            continue;
        printf("%s: buffer %d[%d] is %g, not %g\n", what, (int)(b - buffers), i,
               (double)have[i], (double)b->host[i]);
        return false;
    }
    return true;
}

static bool
do_download(int s)
{
    struct buffer *x = &buffers[pick(BUFFERS)];
    float back[COUNT];
    come_after(x, s, false);
    CU(cuMemcpyDtoHAsync(back, x->at, sizeof back, streams[s]));
    return compare(back, x, "download");
}

static bool
do_pinned(int s)
{
    struct buffer *x = &buffers[pick(BUFFERS)];
    come_after(x, s, false);
    CU(cuMemcpyDtoHAsync(x->pinned, x->at, sizeof x->host, streams[s]));
    CU(cuStreamSynchronize(streams[s]));
    return compare(x->pinned, x, "pinned");
}

/* A few launches as a graph, over two streams, run twice. */
static void
do_graph(int s)
{
    struct buffer *y = &buffers[pick(BUFFERS)], *x = &buffers[pick(BUFFERS)];
    CUgraph graph;
    CUgraphExec exec;
    int other = s == 2 ? 3 : 2;
    static CUevent fork, join;
    if (x == y || s == 4)
        return;
    for (int i = 0; i < COUNT; i++)
        if (wrap(4 * (y->host[i] + 2 * x->host[i])) !=
            4 * (y->host[i] + 2 * x->host[i]))
            return;
    if (fork == NULL) {
        CU(cuEventCreate(&fork, 0));
        CU(cuEventCreate(&join, 0));
    }
    come_after(y, s, true);
    come_after(x, s, true);
    CU(cuStreamBeginCapture(streams[s], CU_STREAM_CAPTURE_MODE_RELAXED));
    launch_axpy(s, y, 1, x);
    CU(cuEventRecord(fork, streams[s]));
    CU(cuStreamWaitEvent(streams[other], fork, 0));
    launch_axpy(other, x, -1, y);
    CU(cuEventRecord(join, streams[other]));
    CU(cuStreamWaitEvent(streams[s], join, 0));
    launch_axpy(s, y, 1, x);
    CU(cuStreamEndCapture(streams[s], &graph));
    CU(cuGraphInstantiate(&exec, graph, 0));
    for (int run = 0; run < 2; run++) {
        CU(cuGraphLaunch(exec, streams[s]));
        for (int i = 0; i < COUNT; i++) {
            y->host[i] += x->host[i];
            x->host[i] -= y->host[i];
            y->host[i] += x->host[i];
        }
    }
    CU(cuGraphExecDestroy(exec));
    CU(cuGraphDestroy(graph));
    note_written(x, s);
    note_written(y, s);
}

/* Temporary memory: freed in stream order, handed out again at once. */
static void
do_temporary(int s)
{
    struct buffer *y = &buffers[pick(BUFFERS)], *x = &buffers[pick(BUFFERS)];
    CUdeviceptr at;
    if (x == y)
        return;
    come_after(y, s, true);
    come_after(x, s, false);
    CU(cuMemAllocAsync(&at, sizeof x->host, streams[s]));
    CU(cuMemcpyDtoDAsync(at, x->at, sizeof x->host, streams[s]));
    CU(cuMemcpyDtoDAsync(y->at, at, sizeof x->host, streams[s]));
    CU(cuMemFreeAsync(at, streams[s]));
    memcpy(y->host, x->host, sizeof y->host);
    note_read(x, s);
    note_written(y, s);
}

static void
do_wait(int s)
{
    if (pick(4) == 0) {
        CU(cuCtxSynchronize());
        for (int i = 0; i < BUFFERS; i++) {
            buffers[i].fresh = false;
            memset(buffers[i].reading, 0, sizeof buffers[i].reading);
        }
    } else {
        CU(cuStreamSynchronize(streams[s]));
    }
}

static bool
step(void)
{
    int s = (int)pick(STREAMS);
    switch (pick(12)) {
    case 0: case 1: case 2: do_axpy(s); return true;
    case 3: case 4: do_copy(s); return true;
    case 5: do_fill(s); return true;
    case 6: do_upload(s); return true;
    case 7: return do_download(s);
    case 8: return do_pinned(s);
    case 9: do_graph(s); return true;
    case 10: do_temporary(s); return true;
    default: do_wait(s); return true;
    }
}

static void
open_all(const char *image)
{
    CUdevice device;
    CUcontext context;
    CUmodule module;
    CU(cuInit(0));
    CU(cuDeviceGet(&device, 0));
    CU(cuDevicePrimaryCtxRetain(&context, device));
    CU(cuCtxSetCurrent(context));
    CU(cuModuleLoad(&module, image));
    CU(cuModuleGetFunction(&axpy, module, "axpy"));
    CU(cuModuleGetFunction(&fill, module, "fill"));
    for (int i = 0; i < 4; i++)
        CU(cuStreamCreate(&streams[i], i < 2 ? CU_STREAM_DEFAULT
                                             : CU_STREAM_NON_BLOCKING));
    for (int i = 0; i < BUFFERS; i++) {
        struct buffer *b = &buffers[i];
        CU(cuMemAlloc(&b->at, sizeof b->host));
        CU(cuMemAllocHost((void **)&b->pinned, sizeof b->host));
        CU(cuMemsetD8(b->at, 0, sizeof b->host));
        CU(cuEventCreate(&b->written[0], CU_EVENT_DISABLE_TIMING));
        CU(cuEventCreate(&b->written[1], CU_EVENT_DISABLE_TIMING));
        for (int j = 0; j < STREAMS; j++)
            CU(cuEventCreate(&b->read[j], CU_EVENT_DISABLE_TIMING));
    }
    CU(cuCtxSynchronize());
}

int
main(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "usage: stress IMAGE [SEED [STEPS]]\n");
        return 2;
    }
    unsigned long seed = argc > 2 ? strtoul(argv[2], NULL, 0) : 1;
    long steps = argc > 3 ? strtol(argv[3], NULL, 0) : 2000;
    state = seed * 0x9e3779b97f4a7c15u + 1;
    open_all(argv[1]);
    for (long i = 0; i < steps; i++) {
        if (!step()) {
            printf("seed %lu: wrong at step %ld\n", seed, i);
            return 1;
        }
    }
    CU(cuCtxSynchronize());
    double sum = 0;
    for (int i = 0; i < BUFFERS; i++) {
        float back[COUNT];
        CU(cuMemcpyDtoH(back, buffers[i].at, sizeof back));
        if (!compare(back, &buffers[i], "end"))
            return 1;
        for (int j = 0; j < COUNT; j++)
            sum += (double)back[j] * (i + 1);
    }
    printf("seed %lu: %ld steps, sum %g\n", seed, steps, sum);
    return 0;
}
