/* SPDX-License-Identifier: Apache-2.0 */
/* The hook table, and lookups in it. What needs a process of its own is in
 * tests/doors/. */
#include "config.h"

#include "intercept/hook.h"
#include "intercept/hook_private.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct dcp_hook_info *
info(const char *symbol)
{
    for (unsigned i = 0; i < DCP_HOOK_COUNT; i++)
        if (strcmp(dcp_hook_info[i].symbol, symbol) == 0)
            return &dcp_hook_info[i];
    ck_abort_msg("no row %s", symbol);
    return NULL;
}

static bool
ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);

    return n >= m && strcmp(text + n - m, end) == 0;
}

START_TEST(rows_agree_with_their_names)
{
    for (unsigned i = 0; i < DCP_HOOK_COUNT; i++) {
        const struct dcp_hook_info *row = &dcp_hook_info[i];
        bool ptds = ends_with(row->symbol, "_ptsz") ||
                    ends_with(row->symbol, "_ptds");

        ck_assert_uint_eq(row->id, i);
        ck_assert_msg(row->ptds == ptds, "%s", row->symbol);
        ck_assert_ptr_eq(row, info(row->symbol)); /* no name twice */
    }
}
END_TEST

START_TEST(a_canon_is_the_same_call)
{
    for (unsigned i = 0; i < DCP_HOOK_COUNT; i++) {
        const struct dcp_hook_info *row = &dcp_hook_info[i];
        const struct dcp_hook_info *canon = &dcp_hook_info[row->canon];

        ck_assert_msg(canon->canon == canon->id, "%s", row->symbol);
        ck_assert_msg(!canon->ptds, "%s", row->symbol);
        ck_assert_msg(canon->class == row->class, "%s", row->symbol);
        ck_assert_msg(canon->kind == row->kind, "%s", row->symbol);
    }
}
END_TEST

START_TEST(stream_forms_come_in_pairs)
{
    char name[80];

    for (unsigned i = 0; i < DCP_HOOK_COUNT; i++) {
        const char *symbol = dcp_hook_info[i].symbol;

        if (!dcp_hook_info[i].ptds)
            continue;
        snprintf(name, sizeof name, "%.*s", (int)strlen(symbol) - 5, symbol);
        ck_assert_msg(info(name)->canon == dcp_hook_info[i].canon, "%s", name);
    }
}
END_TEST

START_TEST(known_rows)
{
    static const struct {
        const char *symbol, *canon;
        enum dcp_hook_kind kind;
        enum dcp_hook_class class;
    } want[] = {
        {"cuInit", "cuInit", DCP_HOOK_DOOR, DCP_CLASS_INIT},
        {"cuLaunchKernel_ptsz", "cuLaunchKernel", DCP_HOOK_WATCH,
         DCP_CLASS_LAUNCH},
        {"cuMemAlloc", "cuMemAlloc", DCP_HOOK_WATCH, DCP_CLASS_ALLOC},
        {"cuMemAlloc_v2", "cuMemAlloc_v2", DCP_HOOK_OWN, DCP_CLASS_ALLOC},
        {"cuMemFreeAsync_ptsz", "cuMemFreeAsync", DCP_HOOK_OWN,
         DCP_CLASS_FREE},
        {"cuMemcpyHtoD_v2_ptds", "cuMemcpyHtoD_v2", DCP_HOOK_WATCH,
         DCP_CLASS_COPY},
        {"cuStreamDestroy", "cuStreamDestroy_v2", DCP_HOOK_OWN,
         DCP_CLASS_UNLOAD},
        {"cuGraphLaunch_ptsz", "cuGraphLaunch", DCP_HOOK_WATCH,
         DCP_CLASS_GRAPH},
        {"cuCtxGetCurrent", "cuCtxGetCurrent", DCP_HOOK_PASS, DCP_CLASS_ABOUT},
    };

    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        const struct dcp_hook_info *row = info(want[i].symbol);

        ck_assert_str_eq(dcp_hook_info[row->canon].symbol, want[i].canon);
        ck_assert_int_eq(row->kind, want[i].kind);
        ck_assert_int_eq(row->class, want[i].class);
    }
}
END_TEST

START_TEST(exported_names_are_found)
{
    for (unsigned i = 0; i < DCP_HOOK_COUNT; i++)
        ck_assert_uint_eq(dcp_hook_by_name(dcp_hook_info[i].symbol),
                          dcp_hook_info[i].kind == DCP_HOOK_PASS
                              ? DCP_HOOK_COUNT : i);
}
END_TEST

START_TEST(other_names_are_not)
{
    static const char *const names[] = {
        "", "c", "cu", "cuI", "cuini", "cuInit_", "cuInit_v2", "CuInit",
        "cublasCreate_v2", "cudnnCreate", "curl_easy_init", "cudaMalloc",
        "cuMemAlloc_v3", "cuMemAlloc_v2_ptds", "malloc", "dlsym",
    };

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        ck_assert_uint_eq(dcp_hook_by_name(names[i]), DCP_HOOK_COUNT);
}
END_TEST

START_TEST(streams_are_normalised)
{
    const struct dcp_hook_info *legacy = info("cuLaunchKernel");
    const struct dcp_hook_info *thread = info("cuLaunchKernel_ptsz");
    CUstream made = (CUstream)0x1234;

    ck_assert_ptr_eq(dcp_hook_stream(legacy, NULL), CU_STREAM_LEGACY);
    ck_assert_ptr_eq(dcp_hook_stream(thread, NULL), CU_STREAM_PER_THREAD);
    ck_assert_ptr_eq(dcp_hook_stream(legacy, CU_STREAM_PER_THREAD),
                     CU_STREAM_PER_THREAD);
    ck_assert_ptr_eq(dcp_hook_stream(thread, CU_STREAM_LEGACY),
                     CU_STREAM_LEGACY);
    ck_assert_ptr_eq(dcp_hook_stream(thread, made), made);
}
END_TEST

START_TEST(loaded_objects_are_searched)
{
    uintptr_t low, high;

    ck_assert_ptr_eq(dcp_elf_next("getenv"), (void *)getenv);
    ck_assert_ptr_nonnull(dcp_elf_next("dlsym"));
    ck_assert_ptr_nonnull(dcp_elf_next("dlvsym"));
    ck_assert_ptr_null(dcp_elf_next("no_such_function_anywhere"));
    ck_assert(dcp_elf_range((void *)getenv, &low, &high));
    ck_assert(low <= (uintptr_t)getenv && (uintptr_t)getenv < high);
    ck_assert(dcp_elf_range(dcp_hook_info, &low, &high));
    ck_assert(!((uintptr_t)getenv >= low && (uintptr_t)getenv < high));
    ck_assert(!dcp_elf_range(NULL, &low, &high));
}
END_TEST

int
main(void)
{
    Suite *suite = suite_create("intercept");
    TCase *table = tcase_create("hooks");

    tcase_add_test(table, rows_agree_with_their_names);
    tcase_add_test(table, a_canon_is_the_same_call);
    tcase_add_test(table, stream_forms_come_in_pairs);
    tcase_add_test(table, known_rows);
    tcase_add_test(table, exported_names_are_found);
    tcase_add_test(table, other_names_are_not);
    tcase_add_test(table, streams_are_normalised);
    tcase_add_test(table, loaded_objects_are_searched);
    suite_add_tcase(suite, table);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
