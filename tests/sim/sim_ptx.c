/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the entries of a PTX text: names and parameter layouts. Their code is
 * looked up among the kernels linked into the simulator. */
#include "sim_image.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

extern const struct dcpsim_kernel dcpsim_builtin_kernels[]
    __attribute__((weak));

static const struct dcpsim_kernel *
builtin_find(const char *name)
{
    const struct dcpsim_kernel *volatile table = dcpsim_builtin_kernels;
    for (const struct dcpsim_kernel *k = table; k && k->name; k++)
        if (strcmp(k->name, name) == 0)
            return k;
    return NULL;
}

static const char *
skip_space(const char *at)
{
    for (;;) {
        while (isspace((unsigned char)*at))
            at++;
        if (at[0] == '/' && at[1] == '/')
            at += strcspn(at, "\n");
        else
            return at;
    }
}

static const char *
word_end(const char *at)
{
    while (isalnum((unsigned char)*at) || *at == '_' || *at == '$')
        at++;
    return at;
}

/* Behind ".ptr": what it points at (".global .align 4") is no part of the
 * parameter's layout. */
static const char *
skip_target(const char *at)
{
    at = skip_space(at);
    if (*at == '.' && strncmp(at, ".align", 6) != 0)
        at = skip_space(word_end(at + 1));
    if (strncmp(at, ".align", 6) == 0) {
        char *end;
        strtoul(at + 6, &end, 10);
        at = end;
    }
    return at;
}

/* One ".param ... name[n]" up to ',' or ')'. */
static const char *
param_parse(const char *at, struct dcpsim_param *param, uint32_t *end)
{
    uint32_t align = 0, unit = 8, count = 1;
    while (*at && *at != ',' && *at != ')') {
        at = skip_space(at);
        if (strncmp(at, ".align", 6) == 0) {
            align = (uint32_t)strtoul(at + 6, (char **)&at, 10);
        } else if (*at == '[') {
            count = (uint32_t)strtoul(at + 1, (char **)&at, 10);
            at += *at == ']';
        } else if (*at == '.') {
            bool pointer = strncmp(at, ".ptr", 4) == 0;
            if (strchr("usbf", at[1]) && isdigit((unsigned char)at[2]))
                unit = (uint32_t)strtoul(at + 2, NULL, 10) / 8;
            at = word_end(at + 1);
            if (pointer)
                at = skip_target(at);
        } else if (*at && *at != ',' && *at != ')') {
            at = word_end(at) > at ? word_end(at) : at + 1;
        }
        at = skip_space(at);
    }
    if (align == 0)
        align = unit;
    param->offset = (*end + align - 1) / align * align;
    param->bytes = unit * count;
    *end = param->offset + param->bytes;
    return at;
}

static const char *
entry_parse(const char *at, struct dcpsim_kernel *kernel)
{
    at = skip_space(at);
    const char *stop = word_end(at);
    kernel->name = strndup(at, (size_t)(stop - at));
    at = skip_space(stop);
    struct dcpsim_param *params = NULL;
    uint32_t end = 0;
    if (*at == '(') {
        at = skip_space(at + 1);
        while (*at && *at != ')') {
            params = realloc(params,
                             (kernel->param_count + 1) * sizeof *params);
            at = param_parse(at, &params[kernel->param_count++], &end);
            at += *at == ',';
            at = skip_space(at);
        }
    }
    kernel->params = params;
    return at;
}

CUresult
sim_ptx_parse(const char *text, struct sim_image *image)
{
    if (strstr(text, ".version") == NULL)
        return CUDA_ERROR_INVALID_PTX;
    for (const char *at = text; (at = strstr(at, ".entry")) != NULL;) {
        image->parsed = realloc(image->parsed,
                                (image->count + 2) * sizeof *image->parsed);
        struct dcpsim_kernel *kernel = &image->parsed[image->count];
        memset(kernel, 0, 2 * sizeof *kernel);
        at = entry_parse(at + 6, kernel);
        const struct dcpsim_kernel *code = builtin_find(kernel->name);
        if (code) {
            kernel->run = code->run;
            kernel->shared_bytes = code->shared_bytes;
        }
        image->count++;
    }
    image->kernels = image->parsed;
    return CUDA_SUCCESS;
}

void
sim_ptx_free(struct sim_image *image)
{
    for (uint32_t i = 0; image->parsed && i < image->count; i++) {
        free((void *)(uintptr_t)image->parsed[i].name);
        free((void *)(uintptr_t)image->parsed[i].params);
    }
    free(image->parsed);
}
