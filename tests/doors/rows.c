/* SPDX-License-Identifier: Apache-2.0 */
/* Every row, through every door, with arguments that would show any mistake:
 * driver and sink get what the program passed, the program gets the result. */
#include "config.h"

#include "tests/doors/door.h"
#include "tests/doors/each.h"

#include "intercept/hook_args.h"

enum kind { PASS, WATCH, OWN, DOOR };

static void *library;
static CUresult (*get)(const char *, void **, int, cuuint64_t,
                       CUdriverProcAddressQueryResult *);

/* The function by name, through dlsym; the same through cuGetProcAddress when
 * the name is one that has its version spelt out. */
static void *
look_up(const char *symbol)
{
    void *function = dlsym(library, symbol), *other = NULL;

    CHECK(function);
    CHECK(dlerror() == NULL);
    if (strchr(symbol, '_')) {
        CHECK(get(symbol, &other, 13000, 0, NULL) == CUDA_SUCCESS);
        CHECK(other == function);
    }
    return function;
}

static void
check_seen(enum kind kind, const char *symbol, const char *canon, int ptds)
{
    struct spy *s = spy();

    if (!s)
        return;
    if (kind == PASS) {
        CHECK(!s->symbol);
        return;
    }
    CHECK(s->symbol && strcmp(s->symbol, symbol) == 0);
    CHECK(strcmp(s->canon, canon) == 0);
    CHECK(s->ptds == ptds);
    CHECK(s->kind == (int)kind);
    CHECK(s->result == 77);
    CHECK(s->before == s->after);
    s->symbol = NULL;
}

/* Every byte of every argument differs from its neighbours. */
static unsigned char next_byte;

static void
pattern(void *value, size_t size)
{
    unsigned char *byte = value;

    for (size_t i = 0; i < size; i++)
        byte[i] = next_byte = (unsigned char)(next_byte * 5 + 13);
}

#define FILL(t, a)                                                             \
    t a;                                                                       \
    pattern((void *)&a, sizeof a);
#define SAME(t, a)                                                             \
    CHECK(memcmp(&a, (char *)&args->a, sizeof a) == 0);

#define TEST(k, symbol, canon, ptds, ...)                                      \
    static void test_##symbol(void)                                            \
    {                                                                          \
        CUresult (*callee)(DCP_PARAMS(__VA_ARGS__)) = look_up(#symbol);        \
        struct dcp_args_##symbol *args = (void *)driver()->args;               \
        EACH(FILL, __VA_ARGS__)                                                \
                                                                               \
        CHECK((int)callee(DCP_NAMES(__VA_ARGS__)) == 77);                      \
        EACH(SAME, __VA_ARGS__)                                                \
        CHECK(reached(#symbol));                                               \
        if (spy() && k != PASS) {                                              \
            args = (void *)spy()->args;                                        \
            EACH(SAME, __VA_ARGS__)                                            \
        }                                                                      \
        (void)args;                                                            \
        check_seen(k, #symbol, #canon, ptds);                                  \
    }
#define TEST_DOOR(...)
#define TEST_PASS(...) TEST(PASS, __VA_ARGS__)
#define TEST_WATCH(...) TEST(WATCH, __VA_ARGS__)
#define TEST_OWN(...) TEST(OWN, __VA_ARGS__)
#define ROW(kind, class, symbol, canon, ptds, args)                            \
    TEST_##kind(symbol, canon, ptds, args)
#include "intercept/hook.def"
#undef ROW

#define RUN_DOOR(symbol)
#define RUN_PASS(symbol) test_##symbol();
#define RUN_WATCH(symbol) test_##symbol();
#define RUN_OWN(symbol) test_##symbol();

/* By name, version and flags as programs ask: whatever the driver would have
 * given, its hook is given. */
static void
check_versions(void)
{
    static const struct {
        const char *name, *symbol;
        int version, own;
    } entries[] = {
#define SIM_ENTRY(name, version, own, symbol)                                  \
    {#name, #symbol, version, own},
#include "tests/sim/sim_entry.def"
#undef SIM_ENTRY
    };
    unsigned found = 0;

    for (size_t i = 0; i < sizeof entries / sizeof *entries; i++) {
        void *function = NULL, *same = dlsym(library, entries[i].symbol);

        if (!same) /* of no row */
            continue;
        CHECK(get(entries[i].name, &function, entries[i].version,
                  entries[i].own ? CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM
                                 : CU_GET_PROC_ADDRESS_LEGACY_STREAM,
                  NULL) == CUDA_SUCCESS);
        CHECK(function == same);
        found++;
    }
    CHECK(found > 400);
    printf("%u questions by name and version\n", found);
}

int
main(void)
{
    unsigned rows = 0;
    CUresult (*init)(unsigned);

    library = dlopen("libcuda.so.1", RTLD_NOW);
    CHECK(library);
    *(void **)&get = dlsym(library, "cuGetProcAddress_v2");
    *(void **)&init = dlsym(library, "cuInit");
    CHECK(init(0) == CUDA_SUCCESS);
    driver()->result = 77;
#define ROW(kind, class, symbol, canon, ptds, args) rows++; RUN_##kind(symbol)
#include "intercept/hook.def"
#undef ROW
    printf("%u rows\n", rows);
    check_versions();
    return 0;
}
