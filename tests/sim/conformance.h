/* SPDX-License-Identifier: Apache-2.0 */
/* A program that asks a driver how it behaves, one line an answer, and prints
 * nothing that differs between machines: no addresses, no times. Run on a GPU
 * and on the simulated driver it must print the same. Lines that begin with
 * "?" are those where the manuals leave the answer open. */
#ifndef DCP_SIM_CONFORMANCE_H
#define DCP_SIM_CONFORMANCE_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if CUDA_VERSION < 12080
CUresult cuEventElapsedTime_v2(float *ms, CUevent start, CUevent end);
#endif

/* The driver's function by its exact symbol. */
#define CU(symbol) ((__typeof__(&symbol))driver_find(#symbol))

void *driver_find(const char *symbol);

/* "section.what value"; the section is set by begin. */
void begin(const char *section);
void say(const char *what, long long value);
void ask(const char *what, long long value);  /* "? section.what value" */
void say_text(const char *what, const char *text);
/* Ends the program where later checks would make no sense. */
void need(const char *what, CUresult result);

/* One context, made by the main program; kernels from the image. */
extern CUdevice device;
extern CUcontext context;
extern CUmodule module;
extern const void *image;

CUstream stream_new(unsigned flags);
CUfunction kernel(const char *name);
/* y[i] = value for i < n, one block of 64 threads each 64 items. */
CUresult launch_fill(CUstream stream, CUdeviceptr y, float value, int n);
/* What stands at y[index], after the whole context has come to rest. */
float read_float(CUdeviceptr y, int index);
/* Parameters of a kernel node that fills; `slots` must live as long as they. */
struct fill_slots {
    CUdeviceptr y;
    float value;
    int n;
    void *params[3];
};
CUDA_KERNEL_NODE_PARAMS_v2 fill_node(struct fill_slots *slots, CUdeviceptr y,
                                     float value, int n);

/* A stream that stands still until the gate is opened: it waits for a word in
 * pinned memory. */
struct gate {
    volatile uint32_t *word;
    CUdeviceptr at;
};
struct gate gate_new(void);
void gate_close(struct gate *gate, CUstream stream);
void gate_open(struct gate *gate);
void gate_free(struct gate *gate);

void check_before_init(void);
void check_lookup(void);
void check_context(void);
void check_module(void);
void check_memory(void);
void check_copy(void);
void check_pool(void);
void check_vmm(void);
void check_pointer(void);
void check_stream(void);
void check_event(void);
void check_memop(void);
void check_graph(void);
void check_exec(void);
void check_update(void);
void check_capture(void);
void check_capture_errors(void);

/* Checks that end their process's context run in a process of their own. */
void fault_run(const char *name);
/* Two processes and one frame (conformance_vmm.c). */
void share_child(int socket);
void share_parent(int socket);

#endif
