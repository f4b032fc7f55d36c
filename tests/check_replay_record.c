/* SPDX-License-Identifier: Apache-2.0 */
/* How the arguments of a call are packed, and its pointers found. */
#include "config.h"

#include "tests/check_replay.h"

#include "intercept/heap.h"

#include <stdlib.h>
#include <string.h>

#define STREAM fake_stream(1)
#define DEV DEVICE(4)

/* --- parameters ----------------------------------------------------------- */

/* Every size, and holes: 8, 4, 1, 12 and 8 bytes. */
static const struct dcp_kernel_param mixed[] = {
    {0, 8}, {8, 4}, {12, 1}, {16, 12}, {32, 8}};
static const struct dcp_kernel kernel = {
    .name = "mixed", .param_count = 5, .bytes = 40, .known = true,
    .params = mixed};
static uint8_t arguments[40], packed[48];
static void *pointers[5];

static void
arguments_fill(void)
{
    for (unsigned i = 0; i < sizeof arguments; i++)
        arguments[i] = (uint8_t)(i + 1);
    for (unsigned i = 0; i < 5; i++)
        pointers[i] = arguments + mixed[i].offset;
    memset(packed, 0xaa, sizeof packed);
}

static bool
in_parameter(unsigned at)
{
    for (unsigned i = 0; i < 5; i++)
        if (at - mixed[i].offset < mixed[i].bytes)
            return true;
    return false;
}

/* The parameters are there, and nothing else was touched. */
static void
check_packed(void)
{
    for (unsigned i = 0; i < sizeof packed; i++)
        ck_assert_uint_eq(packed[i], in_parameter(i) ? arguments[i] : 0xaa);
}

START_TEST(by_pointers)
{
    arguments_fill();
    ck_assert_int_eq(dcp_params_pack(&kernel, pointers, NULL, packed), 1);
    check_packed();
    ck_assert_int_eq(dcp_params_pack(&kernel, pointers, NULL, packed), 0);
    for (unsigned i = 0; i < sizeof arguments; i++) {
        arguments[i] ^= 0x40;
        ck_assert_int_eq(dcp_params_pack(&kernel, pointers, NULL, packed),
                         in_parameter(i));
        check_packed();
    }
}
END_TEST

START_TEST(by_buffer)
{
    size_t bytes = sizeof arguments;
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, arguments,
                     CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes, CU_LAUNCH_PARAM_END};

    arguments_fill();
    ck_assert_int_eq(dcp_params_pack(&kernel, NULL, extra, packed), 1);
    check_packed();
    ck_assert_int_eq(dcp_params_pack(&kernel, NULL, extra, packed), 0);
    /* What lies between and behind parameters is no change. */
    arguments[13] ^= 1;
    ck_assert_int_eq(dcp_params_pack(&kernel, NULL, extra, packed), 0);
    arguments[16] ^= 1;
    ck_assert_int_eq(dcp_params_pack(&kernel, NULL, extra, packed), 1);
    bytes = 4096; /* longer than it need be */
    ck_assert_int_eq(dcp_params_pack(&kernel, NULL, extra, packed), 0);
    bytes = 39; /* too short: left to the driver */
    arguments[0] ^= 1;
    ck_assert_int_eq(dcp_params_pack(&kernel, NULL, extra, packed), -1);
    arguments[0] ^= 1;
    check_packed();
    bytes = sizeof arguments;
    extra[0] = CU_LAUNCH_PARAM_END;
    ck_assert_int_eq(dcp_params_pack(&kernel, NULL, extra, packed), -1);
    extra[0] = (void *)(uintptr_t)77;
    ck_assert_int_eq(dcp_params_pack(&kernel, NULL, extra, packed), -1);
}
END_TEST

START_TEST(by_nothing)
{
    const struct dcp_kernel none = {.name = "none", .known = true};
    const struct dcp_kernel unknown = {.name = "?"};
    void *end[] = {CU_LAUNCH_PARAM_END};

    arguments_fill();
    ck_assert_int_eq(dcp_params_pack(&none, NULL, NULL, packed), 0);
    ck_assert_int_eq(dcp_params_pack(&none, pointers, NULL, packed), 0);
    ck_assert_int_eq(dcp_params_pack(&none, NULL, end, packed), 0);
    ck_assert_int_eq(dcp_params_pack(&kernel, NULL, NULL, packed), -1);
    ck_assert_int_eq(dcp_params_pack(&unknown, pointers, NULL, packed), -1);
    for (unsigned i = 0; i < sizeof packed; i++)
        ck_assert_uint_eq(packed[i], 0xaa);
}
END_TEST

/* --- attributes ----------------------------------------------------------- */

static CUlaunchAttribute
attr_of(CUlaunchAttributeID id, unsigned char garbage)
{
    CUlaunchAttribute attr;

    memset(&attr, garbage, sizeof attr);
    attr.id = id;
    return attr;
}

START_TEST(attributes)
{
    bool graphable;
    uint64_t hash[2];

    for (unsigned char garbage = 0; garbage < 2; garbage++) {
        CUlaunchAttribute list[] = {
            attr_of(CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, garbage * 0xee),
            attr_of(CU_LAUNCH_ATTRIBUTE_COOPERATIVE, garbage * 0xdd),
            attr_of(CU_LAUNCH_ATTRIBUTE_IGNORE, garbage * 0xcc),
        };
        list[0].value.clusterDim.x = 2;
        list[0].value.clusterDim.y = 1;
        list[0].value.clusterDim.z = 1;
        list[1].value.cooperative = 1;
        hash[garbage] = dcp_attrs_hash(list, 3, &graphable);
        ck_assert(graphable);
        ck_assert_uint_ne(hash[garbage], 0);
        ck_assert_uint_eq(hash[garbage], dcp_attrs_hash(list, 2, &graphable));
        list[0].value.clusterDim.z = 2;
        ck_assert_uint_ne(hash[garbage], dcp_attrs_hash(list, 3, &graphable));
        list[1].value.cooperative = 0;
        ck_assert_uint_ne(hash[garbage], dcp_attrs_hash(list, 1, &graphable));
    }
    ck_assert_uint_eq(hash[0], hash[1]);
    ck_assert_uint_eq(dcp_attrs_hash(NULL, 0, &graphable), 0);
    ck_assert(graphable);
    CUlaunchAttribute none = attr_of(CU_LAUNCH_ATTRIBUTE_IGNORE, 0x11);
    ck_assert_uint_eq(dcp_attrs_hash(&none, 1, &graphable), 0);
}
END_TEST

START_TEST(attributes_of_no_node)
{
    static const CUlaunchAttributeID ids[] = {
        CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT,
        CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT,
        CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE,
    };
    bool graphable;

    for (unsigned i = 0; i < 3; i++) {
        CUlaunchAttribute attr = attr_of(ids[i], 0);
        dcp_attrs_hash(&attr, 1, &graphable);
        ck_assert(!graphable);
    }
}
END_TEST

/* --- kernels -------------------------------------------------------------- */

START_TEST(layouts)
{
    replay_start();
    const struct dcp_kernel *a = dcp_kernel_get((CUfunction)&kernel_a);
    const struct dcp_kernel *b = dcp_kernel_get((CUfunction)&kernel_b);
    const struct dcp_kernel *none = dcp_kernel_get((CUfunction)&kernel_none);
    const struct dcp_kernel *not = dcp_kernel_get((CUfunction)&kernel_unknown);

    ck_assert_str_eq(a->name, "a");
    ck_assert_str_eq(b->name, "b");
    ck_assert(a->known && b->known && none->known && !not->known);
    ck_assert_uint_eq(b->param_count, 1);
    ck_assert_uint_eq(b->bytes, 8);
    ck_assert_uint_eq(none->param_count, 0);
    ck_assert_uint_eq(a->id + 1, b->id);
    ck_assert_ptr_eq(dcp_kernel_get((CUfunction)&kernel_a), a);
    dcp_kernel_forget();
    const struct dcp_kernel *again = dcp_kernel_get((CUfunction)&kernel_a);
    ck_assert_ptr_ne(again, a);
    ck_assert_str_eq(a->name, "a"); /* old calls still point there */
    /* A driver without either question. */
    dcp_kernel_forget();
    dcp_real.cuKernelGetParamInfo = NULL;
    dcp_real.cuKernelGetName = NULL;
    ck_assert(dcp_kernel_get((CUfunction)&kernel_a)->known);
    dcp_real.cuFuncGetParamInfo = NULL;
    dcp_real.cuFuncGetName = NULL;
    ck_assert(!dcp_kernel_get((CUfunction)&kernel_none)->known);
}
END_TEST

/* --- recorded calls ------------------------------------------------------- */

START_TEST(references)
{
    struct dcp_arena arena = {0};
    CUdeviceptr small, big;
    struct dcp_block block;
    struct dcp_call call;

    replay_start();
    ck_assert_int_eq(dcp_heap_alloc(512, STREAM, false, &small), CUDA_SUCCESS);
    ck_assert_int_eq(dcp_heap_alloc(8 << 20, STREAM, false, &big),
                     CUDA_SUCCESS);
    dcp_heap_find(big, &block);
    struct dcp_view view = launch_of(&kernel_a, big + 4096);
    ck_assert(dcp_call_record(&call, &view, &arena));
    ck_assert_uint_eq(call.ref_count, 1);
    ck_assert_uint_eq(call.refs[0].buffer, (uint32_t)block.id);
    ck_assert_uint_eq(call.refs[0].offset, 4096);
    ck_assert_uint_eq(call.refs[0].slot, 0);
    /* Numbers, other addresses, a block's end: none. */
    uint64_t none[] = {0, 7, DEV, big + (8 << 20), UINT64_MAX};
    for (unsigned i = 0; i < 5; i++) {
        view = launch_of(&kernel_a, none[i]);
        ck_assert(dcp_call_record(&call, &view, &arena));
        ck_assert_uint_eq(call.ref_count, 0);
    }
    view = copy_of(small, big + 1, 64);
    ck_assert(dcp_call_record(&call, &view, &arena));
    ck_assert_uint_eq(call.ref_count, 2);
    ck_assert_uint_eq(call.refs[1].slot, 8);
    ck_assert_uint_eq(call.refs[1].offset, 1);
    view = free_of(small);
    ck_assert(dcp_call_record(&call, &view, &arena));
    ck_assert_uint_eq(call.ref_count, 1);
    view = launch_of(&kernel_a, big);
    for (long n = 0; n < 2; n++) {
        dcp_arena_fail_after(n);
        ck_assert(!dcp_call_record(&call, &view, &arena));
        dcp_arena_fail_after(-1);
    }
    ck_assert(dcp_call_record(&call, &view, &arena));
    dcp_arena_release(&arena);
}
END_TEST

void
add_record(Suite *s)
{
    TCase *t = tcase_create("record");

    tcase_add_test(t, by_pointers);
    tcase_add_test(t, by_buffer);
    tcase_add_test(t, by_nothing);
    tcase_add_test(t, attributes);
    tcase_add_test(t, attributes_of_no_node);
    tcase_add_test(t, layouts);
    tcase_add_test(t, references);
    suite_add_tcase(s, t);
}
