/* SPDX-License-Identifier: Apache-2.0 */
/* Device code of our own, embedded as PTX. Grids of any size: every kernel
 * strides over its range. Addresses need no alignment. */

typedef unsigned long long word;

static __device__ __forceinline__ word
mix(word value, word place)
{
    value = (value ^ (place + 1) * 0x9e3779b97f4a7c15ull) *
            0xbf58476d1ce4e5b9ull;
    value ^= value >> 29;
    value *= 0x94d049bb133111ebull;
    return value ^ value >> 32;
}

/* The 8 bytes at `at`, which may be unaligned. */
static __device__ __forceinline__ word
load(const unsigned char *at)
{
    word value = 0;

    if (((word)at & 7) == 0)
        return *(const word *)at;
    for (int i = 0; i < 8; i++)
        value |= (word)at[i] << 8 * i;
    return value;
}

/* *result += a hash of bytes [base, base + bytes). The words' hashes are
 * added, so the order of threads makes no difference. */
extern "C" __global__ void
dcp_hash_block(const unsigned char *base, word bytes, word *result)
{
    word step = (word)gridDim.x * blockDim.x, sum = 0;
    word first = (word)blockIdx.x * blockDim.x + threadIdx.x;

    for (word i = first; i < bytes / 8; i += step)
        sum += mix(load(base + i * 8), i);
    for (word i = bytes / 8 * 8 + first; i < bytes; i += step)
        sum += mix(base[i], ~i);
    for (int lane = 16; lane; lane >>= 1)
        sum += __shfl_down_sync(0xffffffffu, sum, lane);
    if ((threadIdx.x & 31) == 0 && sum)
        atomicAdd(result, sum);
}

/* Bytes that no kernel is likely to write: each word is a hash of its place,
 * never a float that arithmetic tends to give. */
extern "C" __global__ void
dcp_fill_pattern(unsigned char *base, word bytes)
{
    word step = (word)gridDim.x * blockDim.x;
    word first = (word)blockIdx.x * blockDim.x + threadIdx.x;

    if (((word)base & 7) == 0)
        for (word i = first; i < bytes / 8; i += step)
            ((word *)base)[i] = mix(0x7ea5d00d, i);
    for (word i = ((word)base & 7 ? 0 : bytes / 8 * 8) + first; i < bytes;
         i += step)
        base[i] = (unsigned char)mix(0x7ea5d00d, ~i);
}

/* *differing += 1 for each thread that saw a difference between the two
 * ranges; 0 stays 0 when they are equal. */
extern "C" __global__ void
dcp_compare_blocks(const unsigned char *a, const unsigned char *b, word bytes,
                   word *differing)
{
    word step = (word)gridDim.x * blockDim.x, differs = 0;
    word first = (word)blockIdx.x * blockDim.x + threadIdx.x;

    for (word i = first; i < bytes / 8; i += step)
        differs |= load(a + i * 8) ^ load(b + i * 8);
    for (word i = bytes / 8 * 8 + first; i < bytes; i += step)
        differs |= a[i] ^ b[i];
    if (differs)
        atomicAdd(differing, 1);
}
