/* SPDX-License-Identifier: Apache-2.0 */
/* A driver of the size of a unit test: frames and mappings are book-keeping
 * alone, streams advance when told to. It fills the fields of dcp_real that
 * the heap uses, keeps the driver's rules, and fails any call on demand. */
#ifndef DCP_TESTS_FAKE_MEMORY_H
#define DCP_TESTS_FAKE_MEMORY_H

#include "intercept/hook.h"

enum { FAKE_STREAMS = 4 };

struct fake {
    size_t page, device_bytes, host_bytes; /* set before use */
    size_t space_bytes;       /* the most that can be reserved */
    bool no_vmm, no_host;
    long fail_after;          /* calls that succeed before the rest fail; -1 */
    long fail_count;          /* how many fail then */
    CUresult fail_with;
    /* what happened */
    long calls, syncs, creates, queries;
    size_t device_held, host_held, device_peak, mapped, reserved;
    int handles, events, broken; /* broken: a rule was not kept */
    uint64_t issued[FAKE_STREAMS], completed[FAKE_STREAMS];
    bool in_global_capture, relaxed;
};

extern struct fake fake;

/* Starts a driver with nothing in it and fills dcp_real. */
void fake_start(size_t page, size_t device_bytes);

/* The handle of stream `i`; 0 is the legacy one. */
CUstream fake_stream(int i);

#endif
