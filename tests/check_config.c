/* SPDX-License-Identifier: Apache-2.0 */
/* Configurations: good ones and their values, and every kind of fault with
 * the whole message. */
#include "config.h"

#include "tests/check_config.h"

#include "src/arena.h"
#include "src/dc_config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct dcp_config config;
static char error[1024];

static enum dcp_status
parse(const char *text)
{
    return dcp_config_parse(text, strlen(text), "f", &config, error,
                            sizeof error, NULL, NULL);
}

/* --- values -------------------------------------------------------------- */

START_TEST(defaults)
{
    ck_assert_int_eq(parse("{}"), DCP_OK);
    ck_assert(config.enabled);
    ck_assert_int_eq(config.warmup, 3);
    ck_assert_double_eq(config.segment_ms,
                        dcp_config_rows[DCP_KEY_segment_ms].otherwise);
    ck_assert_int_eq(config.log_level, 1);
    ck_assert_int_eq(config.on_error_passthrough, 0);
    ck_assert_uint_eq(config.memory_budget_bytes, 0);
    ck_assert_double_eq(config.memory_budget_percent, 0);
    ck_assert_str_eq(config.trace_dir, "");
    ck_assert_str_eq(config.skip_passes, "");
    ck_assert_str_eq(error, "");
    for (int i = 0; i < DCP_CONFIG_KEYS; i++)
        ck_assert_uint_eq(config.lines[i], 0);
}
END_TEST

START_TEST(every_kind)
{
    ck_assert_int_eq(parse("{\"dcprel\": {\n"
                           "\"enabled\": false, \"warmup\": 5,\n"
                           "\"segment_ms\": 0.5, \"segment_nodes\": 1e3,\n"
                           "\"trace_dir\": \"a \\u00e4\", \"verify\": 7,\n"
                           "\"on_error\": \"passthrough\",\n\"log\": \"debug\", "
                           "\"large_bytes\": \"16MiB\",\n\"trace_stacks\": true, "
                           "\"skip_passes\": [\"place\", \"other_one\"],\n"
                           "\"allocator\": \"program\", \"comm\": \"nccl\"},\n"
                           "\"zero_optimization\": {\"stage\": 3}}"), DCP_OK);
    ck_assert(!config.enabled);
    ck_assert_int_eq(config.warmup, 5);
    ck_assert_double_eq(config.segment_ms, 0.5);
    ck_assert_int_eq(config.segment_nodes, 1000);
    ck_assert_str_eq(config.trace_dir, "a \xc3\xa4");
    ck_assert_int_eq(config.verify, 7);
    ck_assert_int_eq(config.on_error_passthrough, 1);
    ck_assert_int_eq(config.log_level, 3);
    ck_assert_uint_eq(config.large_bytes, 16 << 20);
    ck_assert_uint_eq(config.trace_stacks, 1);
    ck_assert_str_eq(config.skip_passes, "place,other_one");
    ck_assert_int_eq(config.allocator_program, 1);
    ck_assert_int_eq(config.comm, DCP_COMM_NCCL);
    ck_assert_int_eq(config.zero_stage, 3);
    ck_assert_uint_eq(config.lines[DCP_KEY_warmup], 2);
    ck_assert_uint_eq(config.lines[DCP_KEY_zero_stage], 9);
}
END_TEST

static const struct {
    const char *text;
    double bytes, percent; /* -1: an error */
} sizes[] = {
    {"0", 0, 0}, {"1073741824", 1073741824, 0}, {"\"40GiB\"", 42949672960., 0},
    {"\"1.5 GB\"", 1.5e9, 0}, {"\"60%\"", 0, 60}, {"\"0.5%\"", 0, 0.5},
    {"\"100 %\"", 0, 100}, {"\"7\"", 7, 0}, {"\"2KiB\"", 2048, 0},
    {"\"1TiB\"", 1099511627776., 0}, {"\"3MB\"", 3e6, 0},
    {"-1", -1, 0}, {"1e16", -1, 0}, {"\"101%\"", -1, 0}, {"\"0%\"", -1, 0},
    {"\"\"", -1, 0}, {"\"GiB\"", -1, 0}, {"\"1.\"", -1, 0},
    {"\"1gib\"", -1, 0}, {"\"-1GiB\"", -1, 0}, {"\"0x10\"", -1, 0},
    {"\"inf\"", -1, 0}, {"\"1,5GB\"", -1, 0}, {"\"9999999TiB\"", -1, 0},
    {"true", -1, 0}, {"null", -1, 0}, {"[]", -1, 0}, {"{}", -1, 0},
};

START_TEST(budgets)
{
    char text[96];

    snprintf(text, sizeof text, "{\"dcprel\": {\"memory_budget\": %s}}",
             sizes[_i].text);
    if (sizes[_i].bytes < 0) {
        ck_assert_int_ne(parse(text), DCP_OK);
        ck_assert_ptr_nonnull(strstr(error, "dcprel.memory_budget: "));
        return;
    }
    ck_assert_int_eq(parse(text), DCP_OK);
    ck_assert_double_eq((double)config.memory_budget_bytes, sizes[_i].bytes);
    ck_assert_double_eq(config.memory_budget_percent, sizes[_i].percent);
}
END_TEST

/* What people have: null and "auto" are not set, free-form parts are free. */
static const char *const good[] = {
    "{\"bf16\": {\"enabled\": \"auto\"}, \"fp16\": null}",
    "{\"train_batch_size\": \"auto\", \"gradient_clipping\": \"auto\"}",
    "{\"optimizer\": {\"type\": \"AdamW\", \"params\": {\"lr\": 1e-4, "
        "\"betas\": [0.9, 0.999], \"any\": {\"thing\": null}}}}",
    "{\"scheduler\": {\"type\": \"WarmupLR\", \"params\": {}}}",
    "{\"zero_optimization\": {\"stage\": 3, \"reduce_bucket_size\": 5e8, "
        "\"zero_quantized_weights\": false, \"mics_shard_size\": -1, "
        "\"zero_hpz_partition_size\": 1, "
        "\"offload_param\": {\"device\": \"cpu\", \"pin_memory\": true}}}",
    "{\"compile\": {\"deepcompile\": true, \"passes\": [\"z3\"], "
        "\"offload_opt_states\": true}, \"zero_optimization\": "
        "{\"offload_optimizer\": {\"device\": \"none\"}}}",
    "{\"gradient_allreduce_op\": \"avg\", \"pipeline\": {}}",
    "{\"train_batch_size\": 32, \"train_micro_batch_size_per_gpu\": 4, "
        "\"gradient_accumulation_steps\": 2}",
    " \n\t{ }\r\n",
};

START_TEST(accepts)
{
    ck_assert_msg(parse(good[_i]) == DCP_OK, "%s", error);
}
END_TEST

/* --- faults -------------------------------------------------------------- */

static const struct {
    const char *text, *message;
} bad[] = {
    /* what is not JSON */
    {"", "f: the configuration is empty; at least {} is wanted"},
    {" \n ", "f: the configuration is empty; at least {} is wanted"},
    {"[1]", "f:1: wrong type: the configuration must be an object"},
    {"null", "f:1: wrong type: the configuration must be an object"},
    {"{\"a\": 1,\n\n}", "f:3: malformed JSON: string or '}' expected near '}'"},
    {"{} x", "f:1: malformed JSON: end of file expected near 'x'"},
    /* unknown keys and what was meant */
    {"{\n\"dcprel\": {\n\"segmnt_ms\": 1}}",
     "f:3: dcprel.segmnt_ms: unknown key; did you mean dcprel.segment_ms?"},
    {"{\"warmup\": 3}",
     "f:1: warmup: unknown key; did you mean dcprel.warmup?"},
    {"{\"zero_optimisation\": {}}",
     "f:1: zero_optimisation: unknown key; did you mean zero_optimization?"},
    {"{\"dcprel\": {\"stage\": 3}}", "f:1: dcprel.stage: unknown key; did you "
                                     "mean zero_optimization.stage?"},
    {"{\"quite_another_thing_altogether\": 3}",
     "f:1: quite_another_thing_altogether: unknown key"},
    {"{\"optimizer\": {\"tpye\": \"Adam\"}}",
     "f:1: optimizer.tpye: unknown key; did you mean optimizer.type?"},
    /* twice */
    {"{\"dcprel\": {\"verify\": 1,\n\"verify\": 1}}",
     "f:2: dcprel.verify: duplicate key; it is already in line 1"},
    {"{\"dcprel\": {},\n\n\"dcpr\\u0065l\": {}}",
     "f:3: dcprel: duplicate key; it is already in line 1"},
    {"{\"optimizer\": {\"params\": {\"lr\": 1, \"lr\": 2}}}",
     "f:1: optimizer.params.lr: duplicate key; it is already in line 1"},
    /* types */
    {"{\"dcprel\": {\"enabled\": 1}}", "f:1: dcprel.enabled: wrong type: true "
                                       "or false is wanted, not a number"},
    {"{\"dcprel\": {\"warmup\": \"3\"}}", "f:1: dcprel.warmup: wrong type: an "
                                          "integer is wanted, not a string"},
    {"{\"dcprel\": {\"warmup\": 3.5}}",
     "f:1: dcprel.warmup: wrong type: an integer is wanted"},
    {"{\"dcprel\": {\"segment_ms\": []}}", "f:1: dcprel.segment_ms: wrong "
                                           "type: a number is wanted, not a "
                                           "list"},
    {"{\"dcprel\": {\"log\": true}}", "f:1: dcprel.log: wrong type: a string "
                                      "is wanted, not a boolean"},
    {"{\"dcprel\": {\"trace_dir\": null}}", "f:1: dcprel.trace_dir: wrong "
                                            "type: a string is wanted, not "
                                            "null"},
    {"{\"dcprel\": {\"trace_stacks\": {}}}",
     "f:1: dcprel.trace_stacks: wrong type: true, false or an integer is "
     "wanted, not an object"},
    {"{\"dcprel\": {\"skip_passes\": \"place\"}}",
     "f:1: dcprel.skip_passes: wrong type: a list of strings is wanted, not a "
     "string"},
    {"{\"dcprel\": {\"skip_passes\": [1]}}",
     "f:1: dcprel.skip_passes: wrong type: a list of strings is wanted"},
    {"{\"dcprel\": {\"memory_budget\": false}}",
     "f:1: dcprel.memory_budget: wrong type: bytes, \"40GiB\" or \"60%\" is "
     "wanted, not a boolean"},
    {"{\"dcprel\": 1}", "f:1: dcprel: wrong type: an object is wanted"},
    {"{\"bf16\": true}", "f:1: bf16: wrong type: an object is wanted"},
    {"{\"steps_per_print\": true}", "f:1: steps_per_print: wrong type: a "
                                    "number is wanted, not a boolean"},
    /* ranges */
    {"{\"dcprel\": {\"warmup\": 1}}",
     "f:1: dcprel.warmup: out of range: 1 is not between 2 and 1000"},
    {"{\"zero_optimization\": {\"stage\": 4}}", "f:1: zero_optimization.stage: "
     "out of range: 4 is not between 0 and 3"},
    {"{\"dcprel\": {\"segment_ms\": 0}}", "f:1: dcprel.segment_ms: out of "
     "range: 0 is not between 0.01 and 10000"},
    {"{\"dcprel\": {\"memory_budget\": \"150%\"}}",
     "f:1: dcprel.memory_budget: out of range: a percentage is above 0 and at "
     "most 100"},
    {"{\"train_batch_size\": 0}", "f:1: train_batch_size: out of range: 0 is "
     "not between 1 and 1000000000000"},
    /* words */
    {"{\"dcprel\": {\"on_error\": \"ignore\"}}",
     "f:1: dcprel.on_error: \"ignore\" is not one of stop, passthrough"},
    {"{\"dcprel\": {\"comm\": \"\"}}",
     "f:1: dcprel.comm: \"\" is not one of auto, self, p2p, nccl"},
    {"{\"compile\": {\"passes\": [\"z3\", \"autosp\"]}}",
     "f:1: compile.passes: \"autosp\" is not one of z1, z2, z3"},
    {"{\"dcprel\": {\"skip_passes\": [\"a,b\"]}}", "f:1: dcprel.skip_passes: "
     "not a name: small letters, digits, _ and - are wanted"},
    {"{\"dcprel\": {\"memory_budget\": \"much\"}}", "f:1: dcprel.memory_budget"
     ": not a size: bytes, \"40GiB\" or \"60%\" is wanted"},
    {"{\"dcprel\": {\"large_bytes\": \"5%\"}}", "f:1: dcprel.large_bytes: not "
     "a size: bytes or \"16MiB\" is wanted"},
    /* refused */
    {"{\"gradient_allreduce_op\": \"sum\"}",
     "f:1: gradient_allreduce_op: refused: only averages are offered"},
    {"{\"zero_optimization\": {\"zero_quantized_weights\": true}}",
     "f:1: zero_optimization.zero_quantized_weights: refused: quantized "
     "collectives would change results"},
    {"{\"zero_optimization\": {\"mics_shard_size\": 8}}",
     "f:1: zero_optimization.mics_shard_size: refused: MiCS is not offered"},
    {"{\"pipeline\": {\"stages\": 4}}", "f:1: pipeline.stages: refused: "
     "pipeline parallelism is not offered"},
    /* conflicts */
    {"{\"compile\": {\n\"offload_parameters\": true,\n"
     "\"offload_opt_states\": true}}",
     "f:3: compile.offload_opt_states: conflicts with "
     "compile.offload_parameters (line 2): one of the two must be false"},
    {"{\"compile\": {\"offload_activation\": true,\n"
     "\"offload_parameters\": true}}",
     "f:2: compile.offload_parameters: conflicts with "
     "compile.offload_activation (line 1): one of the two must be false"},
    {"{\"compile\": {\"offload_opt_states\": true,\n"
     "\"offload_activation\": true}}",
     "f:2: compile.offload_activation: conflicts with "
     "compile.offload_opt_states (line 1): one of the two must be false"},
    {"{\"compile\": {\"offload_opt_states\": true},\n\"zero_optimization\": "
     "{\"offload_optimizer\": {\"device\": \"cpu\"}}}",
     "f:2: zero_optimization.offload_optimizer.device: conflicts with "
     "compile.offload_opt_states (line 1): optimizer states can be offloaded "
     "in one way only"},
    {"{\"compile\": {\"symmetric_memory\": true},\n\"dcprel\": "
     "{\"comm\": \"nccl\"}}",
     "f:2: dcprel.comm: conflicts with compile.symmetric_memory (line 1): "
     "symmetric memory needs \"p2p\" or \"auto\""},
    {"{\"bf16\": {\"enabled\": true}, \"fp16\": {\"enabled\": true}}",
     "f:1: fp16.enabled: conflicts with bf16.enabled (line 1): one of the two "
     "must be false"},
    {"{\"train_batch_size\": 10, \"train_micro_batch_size_per_gpu\": 4,\n"
     "\"gradient_accumulation_steps\": 1}",
     "f:1: train_batch_size: conflicts with train_micro_batch_size_per_gpu "
     "(line 1): the batch is not a multiple of micro-batch times accumulation "
     "steps"},
};

START_TEST(refuses)
{
    ck_assert_int_ne(parse(bad[_i].text), DCP_OK);
    ck_assert_str_eq(error, bad[_i].message);
}
END_TEST

/* on_error counts even where it stands behind the fault. */
START_TEST(on_error_is_read)
{
    ck_assert_int_ne(parse("{\"a\": 1, \"dcprel\": {\"warmup\": 0, "
                           "\"on_error\": \"passthrough\"}}"), DCP_OK);
    ck_assert_int_eq(config.on_error_passthrough, 1);
    ck_assert_ptr_eq(strstr(error, "f:1: a: unknown key"), error);
}
END_TEST

START_TEST(short_message)
{
    char small[8] = "xxxxxxx";

    ck_assert_int_ne(dcp_config_parse("{\"a\": 1}", 8, "name", &config, small,
                                      sizeof small, NULL, NULL), DCP_OK);
    ck_assert_str_eq(small, "name:1:");
    ck_assert_int_ne(dcp_config_parse("{\"a\": 1}", 8, "name", &config, small,
                                      0, NULL, NULL), DCP_OK);
}
END_TEST

START_TEST(deep_and_wide)
{
    char *text = malloc(1 << 20), *at = text;

    at = stpcpy(at, "{\"optimizer\": {\"params\": ");
    for (int i = 0; i < 100; i++)
        at = stpcpy(at, "{\"x\": ");
    at = stpcpy(at, "1");
    for (int i = 0; i < 102; i++)
        at = stpcpy(at, "}");
    ck_assert_int_eq(parse(text), DCP_RANGE);
    at = stpcpy(text, "{\"amp\": {\"x\": 1");
    for (int i = 0; i < 1000; i++)
        at += sprintf(at, ",\n\"%d\": 0", i);
    stpcpy(at, "}}");
    ck_assert_int_eq(parse(text), DCP_RANGE);
    ck_assert_ptr_eq(strstr(error, "f:1001: too many keys"), error);
    at = stpcpy(text, "{\"optimizer\": {\"params\": ");
    memset(at, '[', 100000);
    at[100000] = '\0';
    ck_assert_int_eq(parse(text), DCP_SYNTAX);
    free(text);
}
END_TEST

START_TEST(out_of_memory)
{
    for (long calls = 0; calls < 40; calls++) {
        dcp_arena_fail_after(calls);
        enum dcp_status status = parse("{\"dcprel\": {\"warmup\": 5}}");
        dcp_arena_fail_after(-1);
        if (status == DCP_OK) {
            ck_assert_int_eq(config.warmup, 5);
            return;
        }
        ck_assert_int_eq(status, DCP_NOMEM);
        ck_assert_ptr_nonnull(strstr(error, "out of memory"));
    }
    ck_abort_msg("never succeeds");
}
END_TEST

/* --- rows ---------------------------------------------------------------- */

START_TEST(rows_are_sound)
{
    for (int i = 0; i < DCP_CONFIG_KEYS; i++) {
        const struct dcp_config_row *row = &dcp_config_rows[i];

        ck_assert_ptr_nonnull(row->path);
        ck_assert_ptr_nonnull(row->help);
        ck_assert_msg(row->kind != DCP_CONFIG_WORD || row->words, "%s",
                      row->path);
        for (int j = 0; j < i; j++)
            ck_assert_str_ne(row->path, dcp_config_rows[j].path);
    }
}
END_TEST

START_TEST(every_row_is_reached)
{
    for (int i = 0; i < DCP_CONFIG_KEYS; i++) {
        const struct dcp_config_row *row = &dcp_config_rows[i];
        char text[512], tail[64] = "";
        const char *c = row->path;
        size_t used = 0;

        /* {"a": {"b": {}}} is of the wrong type, or anything will do */
        for (;;) {
            size_t part = strcspn(c, ".");

            used += (size_t)sprintf(text + used, "{\"%.*s\": ", (int)part, c);
            strcat(tail, "}");
            if (c[part] == '\0')
                break;
            c += part + 1;
        }
        sprintf(text + used, "{}%s", tail);
        enum dcp_status status = parse(text);
        ck_assert_msg(!strstr(error, "unknown key"), "%s", error);
        if (row->kind != DCP_CONFIG_ANY)
            ck_assert_msg(status == DCP_INVALID, "%s", row->path);
    }
}
END_TEST

/* --- files --------------------------------------------------------------- */

static char dir[64];

static void
files_setup(void)
{
    strcpy(dir, "/tmp/dcp-config.XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
}

static void
files_teardown(void)
{
    char path[128];
    static const char *const names[] = {"good", "huge", "pipe"};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        snprintf(path, sizeof path, "%s/%s", dir, names[i]);
        unlink(path);
    }
    rmdir(dir);
}

static enum dcp_status
load(const char *name)
{
    char path[128];

    snprintf(path, sizeof path, "%s%s", dir, name);
    return dcp_config_load(path, &config, error, sizeof error);
}

static void
write_file(const char *name, const char *text, off_t bytes)
{
    char path[128];

    snprintf(path, sizeof path, "%s%s", dir, name);
    FILE *file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    fputs(text, file);
    fclose(file);
    if (bytes)
        ck_assert_int_eq(truncate(path, bytes), 0);
}

START_TEST(files)
{
    char path[128];

    ck_assert_int_eq(load("/missing"), DCP_IO);
    ck_assert_ptr_nonnull(strstr(error, "missing: cannot be opened: No such"));
    ck_assert_int_eq(load(""), DCP_IO);
    ck_assert_ptr_nonnull(strstr(error, ": is a directory"));
    write_file("/good", "{\"dcprel\": {\"warmup\": 9}}\n", 0);
    ck_assert_int_eq(load("/good"), DCP_OK);
    ck_assert_int_eq(config.warmup, 9);
    write_file("/huge", "{}", 2 << 20);
    ck_assert_int_eq(load("/huge"), DCP_RANGE);
    ck_assert_ptr_nonnull(strstr(error, "too large"));
    snprintf(path, sizeof path, "%s/pipe", dir);
    ck_assert_int_eq(mkfifo(path, 0600), 0);
    ck_assert_int_eq(load("/pipe"), DCP_IO);
    ck_assert_ptr_nonnull(strstr(error, "is not a regular file"));
    if (geteuid() != 0) {
        snprintf(path, sizeof path, "%s/good", dir);
        ck_assert_int_eq(chmod(path, 0), 0);
        ck_assert_int_eq(load("/good"), DCP_IO);
        ck_assert_ptr_nonnull(strstr(error, "Permission denied"));
    }
}
END_TEST

Suite *
config_suite(void)
{
    Suite *suite = suite_create("config");
    TCase *t = tcase_create("text");

    tcase_add_test(t, defaults);
    tcase_add_test(t, every_kind);
    tcase_add_loop_test(t, budgets, 0, sizeof sizes / sizeof sizes[0]);
    tcase_add_loop_test(t, accepts, 0, sizeof good / sizeof good[0]);
    tcase_add_loop_test(t, refuses, 0, sizeof bad / sizeof bad[0]);
    tcase_add_test(t, on_error_is_read);
    tcase_add_test(t, short_message);
    tcase_add_test(t, deep_and_wide);
    tcase_add_test(t, out_of_memory);
    tcase_add_test(t, rows_are_sound);
    tcase_add_test(t, every_row_is_reached);
    suite_add_tcase(suite, t);
    t = tcase_create("files");
    tcase_add_checked_fixture(t, files_setup, files_teardown);
    tcase_add_test(t, files);
    suite_add_tcase(suite, t);
    return suite;
}
