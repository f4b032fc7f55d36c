/* SPDX-License-Identifier: Apache-2.0 */
/* conformance IMAGE [SECTION]: the main program, and what all checks use.
 * IMAGE is the test programs' kernels: PTX for a GPU, a shared object for the
 * simulator. Each section runs in a process of its own. */
#include "conformance.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

CUdevice device;
CUcontext context;
CUmodule module;
const void *image;

static void *driver;
static const char *section = "";

void *
driver_find(const char *symbol)
{
    void *address = dlsym(driver, symbol);
    if (address == NULL) {
        printf("missing %s\n", symbol);
        exit(1);
    }
    return address;
}

void
begin(const char *name)
{
    section = name;
}

void
say(const char *what, long long value)
{
    printf("%s.%s %lld\n", section, what, value);
}

void
ask(const char *what, long long value)
{
    printf("? %s.%s %lld\n", section, what, value);
}

void
say_text(const char *what, const char *text)
{
    printf("%s.%s %s\n", section, what, text ? text : "(null)");
}

void
need(const char *what, CUresult result)
{
    if (result == CUDA_SUCCESS)
        return;
    printf("cannot go on: %s.%s %d\n", section, what, (int)result);
    exit(1);
}

CUstream
stream_new(unsigned flags)
{
    CUstream stream = NULL;
    need("stream", CU(cuStreamCreate)(&stream, flags));
    return stream;
}

CUfunction
kernel(const char *name)
{
    CUfunction function = NULL;
    need(name, CU(cuModuleGetFunction)(&function, module, name));
    return function;
}

CUresult
launch_fill(CUstream stream, CUdeviceptr y, float value, int n)
{
    void *params[] = {&y, &value, &n};
    return CU(cuLaunchKernel)(kernel("fill"), 64, 1, 1, 64, 1, 1, 0, stream,
                              params, NULL);
}

float
read_float(CUdeviceptr y, int index)
{
    float value = -1;
    CU(cuCtxSynchronize)();
    need("read", CU(cuMemcpyDtoH_v2)(&value, y + 4 * (size_t)index, 4));
    return value;
}

CUDA_KERNEL_NODE_PARAMS_v2
fill_node(struct fill_slots *slots, CUdeviceptr y, float value, int n)
{
    slots->y = y;
    slots->value = value;
    slots->n = n;
    slots->params[0] = &slots->y;
    slots->params[1] = &slots->value;
    slots->params[2] = &slots->n;
    return (CUDA_KERNEL_NODE_PARAMS_v2){
        .func = kernel("fill"), .gridDimX = 64, .gridDimY = 1, .gridDimZ = 1,
        .blockDimX = 64, .blockDimY = 1, .blockDimZ = 1,
        .kernelParams = slots->params};
}

struct gate
gate_new(void)
{
    struct gate gate = {NULL, 0};
    void *word = NULL;
    need("gate", CU(cuMemHostAlloc)(&word, 64, CU_MEMHOSTALLOC_DEVICEMAP));
    memset(word, 0, 64);
    gate.word = word;
    need("gate", CU(cuMemHostGetDevicePointer_v2)(&gate.at, word, 0));
    return gate;
}

void
gate_close(struct gate *gate, CUstream stream)
{
    __atomic_store_n((uint32_t *)gate->word, 0, __ATOMIC_SEQ_CST);
    need("gate", CU(cuStreamWaitValue32_v2)(stream, gate->at, 1,
                                            CU_STREAM_WAIT_VALUE_EQ));
}

void
gate_open(struct gate *gate)
{
    __atomic_store_n((uint32_t *)gate->word, 1, __ATOMIC_SEQ_CST);
}

void
gate_free(struct gate *gate)
{
    CU(cuMemFreeHost)((void *)gate->word);
}

static void
image_read(const char *path)
{
    FILE *file = fopen(path, "rb");
    char *bytes = NULL;
    size_t count = 0, got;
    if (file == NULL) {
        fprintf(stderr, "conformance: %s: %s\n", path, strerror(errno));
        exit(2);
    }
    do {
        bytes = realloc(bytes, count + 65537);
        got = fread(bytes + count, 1, 65536, file);
        count += got;
    } while (got > 0);
    bytes[count] = '\0';
    fclose(file);
    image = bytes;
}

/* The kernel is launched once, so that loading it late cannot get into the
 * way of a stream that stands still. */
static void
context_open(void)
{
    CUdeviceptr y = 0;
    begin("open");
    need("init", CU(cuInit)(0));
    need("device", CU(cuDeviceGet)(&device, 0));
    need("retain", CU(cuDevicePrimaryCtxRetain)(&context, device));
    need("current", CU(cuCtxSetCurrent)(context));
    need("module", CU(cuModuleLoadData)(&module, image));
    need("alloc", CU(cuMemAlloc_v2)(&y, 256));
    need("launch", launch_fill(NULL, y, 0.0f, 64));
    need("synchronize", CU(cuCtxSynchronize)());
    need("free", CU(cuMemFree_v2)(y));
}

static void
check_end(void)
{
    begin("end");
    say("synchronize", CU(cuCtxSynchronize)());
    say("unload", CU(cuModuleUnload)(module));
    say("release", CU(cuDevicePrimaryCtxRelease_v2)(device));
    ask("after_release", CU(cuCtxSynchronize)());
}

static void mapped_copy(void) { fault_run("mapped_copy"); }
static void mapped_fill(void) { fault_run("mapped_fill"); }
static void reserved_copy(void) { fault_run("reserved_copy"); }
static void reserved_fill(void) { fault_run("reserved_fill"); }
static void past_copy(void) { fault_run("past_copy"); }
static void past_fill(void) { fault_run("past_fill"); }
static void share(void);

static const struct {
    const char *name;
    void (*run)(void);
} sections[] = {
    {"before_init", check_before_init},
    {"lookup", check_lookup},
    {"context", check_context},
    {"module", check_module},
    {"memory", check_memory},
    {"copy", check_copy},
    {"pool", check_pool},
    {"vmm", check_vmm},
    {"share", share},
    {"pointer", check_pointer},
    {"stream", check_stream},
    {"event", check_event},
    {"memop", check_memop},
    {"graph", check_graph},
    {"exec", check_exec},
    {"update", check_update},
    {"capture", check_capture},
    {"capture_error", check_capture_errors},
    {"mapped_copy", mapped_copy},
    {"mapped_fill", mapped_fill},
    {"reserved_copy", reserved_copy},
    {"reserved_fill", reserved_fill},
    {"past_copy", past_copy},
    {"past_fill", past_fill},
    {"end", check_end},
};

static const char *self, *path;

/* Runs this program again for one section, with a driver of its own, so that
 * one that goes wrong or hangs takes no others with it. */
static void
run_apart(const char *name)
{
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        alarm(60);
        execl("/proc/self/exe", self, path, name, (char *)NULL);
        _exit(127);
    }
    int status = 0;
    waitpid(child, &status, 0);
    begin("apart");
    if (WIFSIGNALED(status))
        ask(name, -WTERMSIG(status));
}

static void
share(void)
{
    int pair[2];
    char number[16];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0)
        return;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        snprintf(number, sizeof number, "%d", pair[1]);
        close(pair[0]);
        alarm(60);
        execl("/proc/self/exe", self, path, "share", number, (char *)NULL);
        _exit(127);
    }
    close(pair[1]);
    begin("share");
    share_parent(pair[0]);
    close(pair[0]);
    waitpid(child, NULL, 0);
}

static int
run_section(const char *name)
{
    for (size_t i = 0; i < sizeof sections / sizeof sections[0]; i++) {
        if (strcmp(sections[i].name, name) != 0)
            continue;
        if (sections[i].run != check_before_init)
            context_open();
        sections[i].run();
        return 0;
    }
    fprintf(stderr, "conformance: no section %s\n", name);
    return 2;
}

int
main(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "usage: conformance IMAGE [SECTION]\n");
        return 2;
    }
    self = argv[0];
    path = argv[1];
    driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (driver == NULL) {
        fprintf(stderr, "conformance: %s\n", dlerror());
        return 77;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    image_read(path);
    if (argc > 3) {
        context_open();
        share_child(atoi(argv[3]));
        return 0;
    }
    if (argc > 2)
        return run_section(argv[2]);
    for (size_t i = 0; i < sizeof sections / sizeof sections[0]; i++)
        run_apart(sections[i].name);
    return 0;
}
