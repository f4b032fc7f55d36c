/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "tests/doors/driver.h"

#include "intercept/hook_args.h"

#include <stdlib.h>
#include <string.h>

static __thread struct driver driver;

struct driver *
driver_get(void)
{
    return &driver;
}

static CUresult
called(const char *symbol, const void *args, size_t size)
{
    driver.symbol = symbol;
    driver.calls++;
    memcpy(driver.args, args, size);
    return (CUresult)driver.result;
}

#define BODY_PASS BODY
#define BODY_WATCH BODY
#define BODY_OWN BODY
#define BODY_DOOR(symbol, ...)
#define BODY(symbol, ...)                                                      \
    CUresult CUDAAPI symbol(DCP_PARAMS(__VA_ARGS__))                           \
    {                                                                          \
        struct dcp_args_##symbol box = {DCP_NAMES(__VA_ARGS__)};               \
                                                                               \
        return called(#symbol, &box, sizeof box);                              \
    }
#define ROW(kind, class, symbol, canon, ptds, args) BODY_##kind(symbol, args)
#include "intercept/hook.def"
#undef ROW

CUresult CUDAAPI
cuInit(unsigned Flags)
{
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");

    called("cuInit", &Flags, sizeof Flags);
    if (visible && !*visible)
        return CUDA_ERROR_NO_DEVICE;
    return (CUresult)driver.init_result;
}

static const struct {
    const char *symbol;
    void *address;
} functions[] = {
#define ROW(kind, class, symbol, canon, ptds, args) {#symbol, (void *)symbol},
#include "intercept/hook.def"
#undef ROW
};

static const struct {
    const char *name;
    int version, own;
    const char *symbol;
} entries[] = {
#define SIM_ENTRY(name, version, own, symbol)                                  \
    {#name, version, own, #symbol},
#include "tests/sim/sim_entry.def"
#undef SIM_ENTRY
};

static const char *
choose(const char *name, int version, int own)
{
    const char *symbol = NULL;
    int best = -1;

    for (size_t i = 0; i < sizeof entries / sizeof *entries; i++)
        if (strcmp(entries[i].name, name) == 0 && entries[i].own == own &&
            entries[i].version <= version && entries[i].version > best) {
            best = entries[i].version;
            symbol = entries[i].symbol;
        }
    return symbol;
}

static void *
find(const char *name, int version, cuuint64_t flags)
{
    const char *symbol = NULL;

    if (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM)
        symbol = choose(name, version, 1);
    if (!symbol)
        symbol = choose(name, version, 0);
    if (!symbol)
        symbol = name; /* with the ending spelt out */
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (strcmp(functions[i].symbol, symbol) == 0)
            return functions[i].address;
    return NULL;
}

CUresult CUDAAPI
cuGetProcAddress(const char *symbol, void **pfn, int cudaVersion,
                 cuuint64_t flags)
{
    called("cuGetProcAddress", &flags, sizeof flags);
    if (!symbol || !pfn)
        return CUDA_ERROR_INVALID_VALUE;
    *pfn = find(symbol, cudaVersion, flags);
    return *pfn ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

CUresult CUDAAPI
cuGetProcAddress_v2(const char *symbol, void **pfn, int cudaVersion,
                    cuuint64_t flags, CUdriverProcAddressQueryResult *status)
{
    called("cuGetProcAddress_v2", &flags, sizeof flags);
    if (!symbol || !pfn)
        return CUDA_ERROR_INVALID_VALUE;
    *pfn = find(symbol, cudaVersion, flags);
    if (status)
        *status = *pfn ? CU_GET_PROC_ADDRESS_SUCCESS
                       : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    return CUDA_SUCCESS;
}
