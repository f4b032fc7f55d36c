/* SPDX-License-Identifier: Apache-2.0 */
/* Devices: how many, and what they answer about themselves (an H200's
 * figures where a program could ask).
 *
 *   DCPSIM_DEVICES=n      devices in the machine (1)
 *   DCPSIM_MEM_BYTES=n    memory of each (4G)
 *   CUDA_VISIBLE_DEVICES  as for the real driver: numbers or GPU-<uuid> */
#include "sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct sim_device sim_devices[SIM_MAX_DEVICES];
int sim_device_count;
int sim_ready;

static void
uuid_fill(CUuuid *uuid, int physical)
{
    static const unsigned char base[16] = {
        0xdc, 0x51, 0x30, 0x00, 0x5a, 0x11, 0x4d, 0x01,
        0x9c, 0x0d, 0x51, 0xd0, 0x00, 0x00, 0x00, 0x00};
    memcpy(uuid->bytes, base, sizeof base);
    uuid->bytes[15] = (char)physical;
}

/* One entry of CUDA_VISIBLE_DEVICES: the device it names, or -1. */
static int
visible_entry(const char *text, size_t length, int count)
{
    if (length > 4 && strncmp(text, "GPU-", 4) == 0) {
        for (int i = 0; i < count; i++) {
            CUuuid uuid;
            char name[40];
            uuid_fill(&uuid, i);
            const unsigned char *b = (const unsigned char *)uuid.bytes;
            snprintf(name, sizeof name,
                     "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-"
                     "%02x%02x%02x%02x%02x%02x",
                     b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8],
                     b[9], b[10], b[11], b[12], b[13], b[14], b[15]);
            if (strncmp(text + 4, name, length - 4) == 0)
                return i;
        }
        return -1;
    }
    char *end;
    long value = strtol(text, &end, 10);
    if (end == text || value < 0 || value >= count)
        return -1;
    return (int)value;
}

CUresult
sim_device_setup(void)
{
    int count = (int)sim_env("DCPSIM_DEVICES", 1);
    if (count > SIM_MAX_DEVICES)
        count = SIM_MAX_DEVICES;
    int order[SIM_MAX_DEVICES], found = 0;
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    if (visible == NULL) {
        for (int i = 0; i < count; i++)
            order[found++] = i;
    } else {
        while (*visible && found < SIM_MAX_DEVICES) {
            size_t length = strcspn(visible, ",");
            int device = visible_entry(visible, length, count);
            if (device < 0)
                break; /* the list ends at the first bad entry */
            order[found++] = device;
            visible += length;
            if (*visible == ',')
                visible++;
        }
    }
    if (found == 0)
        return CUDA_ERROR_NO_DEVICE;
    for (int i = 0; i < found; i++) {
        struct sim_device *device = &sim_devices[i];
        device->ordinal = i;
        device->physical = order[i];
        device->total = (size_t)sim_env("DCPSIM_MEM_BYTES", (uint64_t)4 << 30);
        if (sim_pool_setup(device) != CUDA_SUCCESS)
            return CUDA_ERROR_OUT_OF_MEMORY;
    }
    sim_device_count = found;
    return CUDA_SUCCESS;
}

struct sim_device *
sim_device_get(CUdevice device)
{
    if (device < 0 || device >= sim_device_count)
        return NULL;
    return &sim_devices[device];
}

CUresult
cuInit(unsigned int flags)
{
    SIM_API(SIM_START);
    if (flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (sim_ready)
        return CUDA_SUCCESS;
    CUresult result = sim_device_setup();
    if (result == CUDA_SUCCESS)
        sim_ready = 1;
    return result;
}

CUresult
cuDriverGetVersion(int *version)
{
    SIM_API(SIM_NONE);
    if (version == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *version = 13000;
    return CUDA_SUCCESS;
}

CUresult
cuDeviceGet(CUdevice *device, int ordinal)
{
    SIM_API(SIM_INIT);
    if (device == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (sim_device_get(ordinal) == NULL)
        return CUDA_ERROR_INVALID_DEVICE;
    *device = ordinal;
    return CUDA_SUCCESS;
}

CUresult
cuDeviceGetCount(int *count)
{
    SIM_API(SIM_INIT);
    if (count == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *count = sim_device_count;
    return CUDA_SUCCESS;
}

CUresult
cuDeviceGetName(char *name, int length, CUdevice handle)
{
    SIM_API(SIM_INIT);
    if (name == NULL || length <= 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (sim_device_get(handle) == NULL)
        return CUDA_ERROR_INVALID_DEVICE;
    snprintf(name, (size_t)length, "dcprel simulated GPU");
    return CUDA_SUCCESS;
}

static CUresult
get_uuid(CUuuid *uuid, CUdevice handle)
{
    const struct sim_device *device = sim_device_get(handle);
    if (uuid == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (device == NULL)
        return CUDA_ERROR_INVALID_DEVICE;
    uuid_fill(uuid, device->physical);
    return CUDA_SUCCESS;
}

CUresult
cuDeviceGetUuid(CUuuid *uuid, CUdevice device)
{
    SIM_API(SIM_INIT);
    return get_uuid(uuid, device);
}

CUresult
cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device)
{
    SIM_API(SIM_INIT);
    return get_uuid(uuid, device);
}

CUresult
cuDeviceTotalMem_v2(size_t *bytes, CUdevice handle)
{
    SIM_API(SIM_INIT);
    const struct sim_device *device = sim_device_get(handle);
    if (bytes == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (device == NULL)
        return CUDA_ERROR_INVALID_DEVICE;
    *bytes = device->total;
    return CUDA_SUCCESS;
}

CUresult
cuDeviceComputeCapability(int *major, int *minor, CUdevice handle)
{
    SIM_API(SIM_INIT);
    if (major == NULL || minor == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (sim_device_get(handle) == NULL)
        return CUDA_ERROR_INVALID_DEVICE;
    *major = 9;
    *minor = 0;
    return CUDA_SUCCESS;
}

CUresult
cuDeviceGetProperties(CUdevprop *prop, CUdevice handle)
{
    SIM_API(SIM_INIT);
    if (prop == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (sim_device_get(handle) == NULL)
        return CUDA_ERROR_INVALID_DEVICE;
    *prop = (CUdevprop){
        .maxThreadsPerBlock = 1024, .maxThreadsDim = {1024, 1024, 64},
        .maxGridSize = {2147483647, 65535, 65535}, .sharedMemPerBlock = 49152,
        .totalConstantMemory = 65536, .SIMDWidth = 32, .memPitch = 2147483647,
        .regsPerBlock = 65536, .clockRate = 1980000, .textureAlign = 512};
    return CUDA_SUCCESS;
}

struct fact {
    int attribute, value;
};

static const struct fact facts[] = {
#define FACT(name, value) {CU_DEVICE_ATTRIBUTE_##name, value},
#include "sim_device.def"
#undef FACT
};

CUresult
cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice handle)
{
    SIM_API(SIM_INIT);
    const struct sim_device *device = sim_device_get(handle);
    if (value == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (device == NULL)
        return CUDA_ERROR_INVALID_DEVICE;
    if ((int)attribute <= 0 || attribute >= CU_DEVICE_ATTRIBUTE_MAX)
        return CUDA_ERROR_INVALID_VALUE;
    *value = 0;
    if (attribute == CU_DEVICE_ATTRIBUTE_PCI_BUS_ID)
        *value = 0x10 + device->physical;
    for (size_t i = 0; i < SIM_COUNT(facts); i++)
        if (facts[i].attribute == (int)attribute)
            *value = facts[i].value;
    return CUDA_SUCCESS;
}

CUresult
cuDeviceGetPCIBusId(char *id, int length, CUdevice handle)
{
    SIM_API(SIM_INIT);
    const struct sim_device *device = sim_device_get(handle);
    if (id == NULL || length <= 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (device == NULL)
        return CUDA_ERROR_INVALID_DEVICE;
    snprintf(id, (size_t)length, "0000:%02X:00.0", 0x10 + device->physical);
    return CUDA_SUCCESS;
}

CUresult
cuDeviceGetByPCIBusId(CUdevice *handle, const char *id)
{
    SIM_API(SIM_INIT);
    unsigned domain = 0, bus = 0;
    if (handle == NULL || id == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (sscanf(id, "%x:%x:", &domain, &bus) != 2)
        return CUDA_ERROR_INVALID_VALUE;
    for (int i = 0; i < sim_device_count; i++) {
        if ((int)bus == 0x10 + sim_devices[i].physical) {
            *handle = i;
            return CUDA_SUCCESS;
        }
    }
    return CUDA_ERROR_INVALID_DEVICE;
}

CUresult
cuDeviceGetLuid(char *luid, unsigned int *mask, CUdevice device)
{
    SIM_API(SIM_INIT);
    (void)luid, (void)mask, (void)device;
    return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult
cuDeviceGetExecAffinitySupport(int *value, CUexecAffinityType type,
                               CUdevice handle)
{
    SIM_API(SIM_INIT);
    (void)type;
    if (value == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (sim_device_get(handle) == NULL)
        return CUDA_ERROR_INVALID_DEVICE;
    *value = 0;
    return CUDA_SUCCESS;
}

CUresult
cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer)
{
    SIM_API(SIM_INIT);
    if (can == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (sim_device_get(device) == NULL || sim_device_get(peer) == NULL)
        return CUDA_ERROR_INVALID_DEVICE;
    *can = device != peer;
    return CUDA_SUCCESS;
}

CUresult
cuDeviceGetP2PAttribute(int *value, CUdevice_P2PAttribute attribute,
                        CUdevice source, CUdevice target)
{
    SIM_API(SIM_INIT);
    if (value == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (sim_device_get(source) == NULL || sim_device_get(target) == NULL ||
        source == target)
        return CUDA_ERROR_INVALID_DEVICE;
    switch (attribute) {
    case CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK:
        *value = 0;
        return CUDA_SUCCESS;
    case CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED:
    case CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED:
    case CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED:
        *value = 1;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}
