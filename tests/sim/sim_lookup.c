/* SPDX-License-Identifier: Apache-2.0 */
/* cuGetProcAddress in both versions, export tables (none), error names. The
 * rows of sim_entry.def are what the real driver's table says: per name, which
 * symbol a caller of a given CUDA version gets, and which has a form for
 * per-thread default streams. */
#include "sim.h"

#include <string.h>

/* Symbols as plain addresses; no prototypes are needed to name them. */
#define SIM_ENTRY(base, version, own, symbol)                                  \
    extern char address_of_##symbol[] __asm__(#symbol);
#include "sim_entry.def"
#undef SIM_ENTRY

static const struct entry {
    const char *base;
    int version;
    int own; /* the form for per-thread default streams */
    void *address;
} entries[] = {
#define SIM_ENTRY(base, version, own, symbol)                                  \
    {#base, version, own, address_of_##symbol},
#include "sim_entry.def"
#undef SIM_ENTRY
};

/* What cuDriverGetVersion says. No later caller is answered. */
#define VERSION 13000

/* The newest entry of that name for a caller of `version`. */
static void *
find(const char *name, int version, bool own, bool *known)
{
    void *address = NULL;
    int best = -1;
    for (size_t i = 0; i < SIM_COUNT(entries); i++) {
        const struct entry *entry = &entries[i];
        if (entry->own != own || strcmp(entry->base, name) != 0)
            continue;
        *known = true;
        if (entry->version <= version && entry->version > best) {
            best = entry->version;
            address = entry->address;
        }
    }
    return address;
}

static CUresult
proc_address(const char *name, void **out, int version, cuuint64_t flags,
             CUdriverProcAddressQueryResult *status)
{
    const cuuint64_t known_flags =
        CU_GET_PROC_ADDRESS_LEGACY_STREAM |
        CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
    if (name == NULL || out == NULL || (flags & ~known_flags) ||
        flags == known_flags || version > VERSION)
        return CUDA_ERROR_INVALID_VALUE;
    bool known = false;
    void *address = NULL;
    if (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM)
        address = find(name, version, true, &known);
    if (!known) /* a name with an own form has no other under this flag */
        address = find(name, version, false, &known);
    *out = address;
    if (status)
        *status = address ? CU_GET_PROC_ADDRESS_SUCCESS
                  : known ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
                          : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    return CUDA_SUCCESS;
}

CUresult
cuGetProcAddress(const char *name, void **out, int version, cuuint64_t flags)
{
    SIM_API(SIM_NONE);
    CUresult result = proc_address(name, out, version, flags, NULL);
    return result == CUDA_SUCCESS && *out == NULL ? CUDA_ERROR_NOT_FOUND
                                                  : result;
}

CUresult
cuGetProcAddress_v2(const char *name, void **out, int version,
                    cuuint64_t flags, CUdriverProcAddressQueryResult *status)
{
    SIM_API(SIM_NONE);
    return proc_address(name, out, version, flags, status);
}

CUresult
cuGetExportTable(const void **table, const CUuuid *id)
{
    SIM_API(SIM_NONE);
    if (table == NULL || id == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *table = NULL;
    return CUDA_ERROR_NOT_FOUND;
}

struct error {
    CUresult code;
    const char *name, *text;
};

static const struct error errors[] = {
#define SIM_ERROR(code, name, text) {(CUresult)code, #name, text},
#include "sim_error.def"
#undef SIM_ERROR
};

static const struct error *
error_find(CUresult code)
{
    for (size_t i = 0; i < SIM_COUNT(errors); i++)
        if (errors[i].code == code)
            return &errors[i];
    return NULL;
}

CUresult
cuGetErrorName(CUresult code, const char **name)
{
    SIM_API(SIM_NONE);
    const struct error *error = error_find(code);
    if (name == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *name = error ? error->name : NULL;
    return error ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult
cuGetErrorString(CUresult code, const char **text)
{
    SIM_API(SIM_NONE);
    const struct error *error = error_find(code);
    if (text == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *text = error ? error->text : NULL;
    return error ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
