/* SPDX-License-Identifier: Apache-2.0 */
/* Loading images. A shared object is copied into a memfd and opened from
 * there, so that each load has its own variables. */
#include "sim_image.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static size_t
elf_bytes(const unsigned char *data)
{
    const Elf64_Ehdr *head = (const void *)data;
    const Elf64_Phdr *segment = (const void *)(data + head->e_phoff);
    size_t end = head->e_shoff + (size_t)head->e_shnum * head->e_shentsize;
    for (int i = 0; i < head->e_phnum; i++)
        if (segment[i].p_offset + segment[i].p_filesz > end)
            end = segment[i].p_offset + segment[i].p_filesz;
    return end;
}

static bool
write_all(int fd, const unsigned char *data, size_t bytes)
{
    while (bytes > 0) {
        ssize_t done = write(fd, data, bytes);
        if (done <= 0)
            return false;
        data += done;
        bytes -= (size_t)done;
    }
    return true;
}

static CUresult
object_load(const unsigned char *data, struct sim_image *image)
{
    char path[64];
    image->fd = memfd_create("dcpsim-module", MFD_CLOEXEC);
    if (image->fd < 0)
        return CUDA_ERROR_OPERATING_SYSTEM;
    if (!write_all(image->fd, data, elf_bytes(data)))
        return CUDA_ERROR_OUT_OF_MEMORY;
    /* the descriptor stays open: its number must not name another image */
    snprintf(path, sizeof path, "/proc/self/fd/%d", image->fd);
    image->dl = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (image->dl == NULL) {
        if (getenv("DCPSIM_DEBUG"))
            fprintf(stderr, "dcpsim: %s\n", dlerror());
        return CUDA_ERROR_INVALID_IMAGE;
    }
    image->kernels = dlsym(image->dl, "dcpsim_kernels");
    if (image->kernels == NULL)
        return CUDA_ERROR_NO_BINARY_FOR_GPU;
    while (image->kernels[image->count].name)
        image->count++;
    return CUDA_SUCCESS;
}

CUresult
sim_image_load(const void *data, struct sim_image **out)
{
    const unsigned char *bytes = data;
    struct sim_image *image = calloc(1, sizeof *image);
    CUresult result = CUDA_ERROR_INVALID_IMAGE;
    image->fd = -1;
    if (memcmp(bytes, ELFMAG, SELFMAG) == 0)
        result = object_load(bytes, image);
    else if (bytes[0] == '.' || bytes[0] == '/' || bytes[0] == '\n')
        result = sim_ptx_parse(data, image);
    else if (memcmp(bytes, "\x50\xed\x55\xba", 4) == 0 ||
             memcmp(bytes, "\xb1\x43\x62\x46", 4) == 0)
        result = CUDA_ERROR_NO_BINARY_FOR_GPU; /* a fat binary */
    if (result == CUDA_SUCCESS)
        *out = image;
    else
        sim_image_free(image);
    return result;
}

CUresult
sim_image_load_file(const char *path, struct sim_image **out)
{
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return CUDA_ERROR_FILE_NOT_FOUND;
    char *data = NULL;
    size_t bytes = 0, room = 0;
    do {
        room = room ? room * 2 : 65536;
        data = realloc(data, room);
        bytes += fread(data + bytes, 1, room - bytes, file);
    } while (bytes == room);
    fclose(file);
    memset(data + bytes, 0, room - bytes);
    CUresult result = sim_image_load(data, out);
    free(data);
    return result;
}

void
sim_image_free(struct sim_image *image)
{
    for (uint32_t i = 0; i < image->global_count; i++) {
        sim_range_remove(image->globals[i]);
        free(image->globals[i]);
    }
    free(image->globals);
    sim_ptx_free(image);
    if (image->dl)
        dlclose(image->dl);
    if (image->fd >= 0)
        close(image->fd);
    free(image);
}

const struct dcpsim_kernel *
sim_image_find(const struct sim_image *image, const char *name)
{
    for (uint32_t i = 0; i < image->count; i++)
        if (strcmp(image->kernels[i].name, name) == 0)
            return &image->kernels[i];
    return NULL;
}

CUresult
sim_image_global(struct sim_image *image, const char *name, CUdeviceptr *at,
                 size_t *bytes)
{
    if (name == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    void *address = image->dl ? dlsym(image->dl, name) : NULL;
    Dl_info info;
    const ElfW(Sym) *symbol = NULL;
    if (address == NULL || strncmp(name, "dcpsim_", 7) == 0 ||
        !dladdr1(address, &info, (void **)&symbol, RTLD_DL_SYMENT) ||
        symbol == NULL || ELF64_ST_TYPE(symbol->st_info) != STT_OBJECT)
        return CUDA_ERROR_NOT_FOUND;
    const struct sim_range *known = sim_range_find((uintptr_t)address);
    if (known == NULL) {
        struct sim_range *range = calloc(1, sizeof *range);
        range->base = (uintptr_t)address;
        range->bytes = symbol->st_size;
        range->place = SIM_GLOBAL;
        range->live = true;
        range->ctx = sim_ctx_current();
        range->device = range->ctx->device;
        sim_range_add(range);
        image->globals = realloc(image->globals, (image->global_count + 1) *
                                                     sizeof *image->globals);
        image->globals[image->global_count++] = range;
    }
    if (at)
        *at = (CUdeviceptr)(uintptr_t)address;
    if (bytes)
        *bytes = symbol->st_size;
    return CUDA_SUCCESS;
}
