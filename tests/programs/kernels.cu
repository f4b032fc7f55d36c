/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels of the test programs (see kernel.h and kernels.h). Plain rather
 * than fast: no atomics, each sum taken by one thread or one warp. */
#include "tests/programs/kernels.h"

/* ---- small ones -------------------------------------------------------- */

GLOBAL float gain_value[4] = {1.0f, 1.0f, 1.0f, 1.0f};

ITEMS(empty)
{
#ifndef __CUDACC__
    (void)at;
#endif
}

ITEMS(tiny)
{
    EACH_ITEM(i, 1);
    if (words.word[7] == 1)
        out[i] = 1;
}

ITEMS(fill)
{
    EACH_ITEM(i, n);
    y[i] = value;
}

ITEMS(copy)
{
    EACH_ITEM(i, n);
    y[i] = x[i];
}

ITEMS(add)
{
    EACH_ITEM(i, n);
    y[i] = a[i] + b[i];
}

ITEMS(axpy)
{
    EACH_ITEM(i, n);
    y[i] += a * x[i];
}

ITEMS(scale)
{
    EACH_ITEM(i, n);
    y[i] *= a;
}

ITEMS(gain)
{
    EACH_ITEM(i, n);
    y[i] *= gain_value[i % 4];
}

HELPER uint32_t
bits_of(float x)
{
    union {
        float value;
        uint32_t bits;
    } both;
    both.value = x;
    return both.bits;
}

HELPER float
float_of(uint32_t bits)
{
    union {
        float value;
        uint32_t bits;
    } both;
    both.bits = bits;
    return both.value;
}

ITEMS(cast_to_bf16)
{
    EACH_ITEM(i, n);
    uint32_t bits = bits_of(x[i]);
    y[i] = (uint16_t)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

ITEMS(cast_from_bf16)
{
    EACH_ITEM(i, n);
    y[i] = float_of((uint32_t)x[i] << 16);
}

/* The pointers lie in device memory: no argument names these tensors. */
ITEMS(gather_list)
{
    EACH_ITEM(i, n);
    float sum = 0;
    for (int k = 0; k < count; k++)
        sum += list[k][i];
    y[i] = sum;
}

ITEMS(poke)
{
    EACH_ITEM(i, 1);
#ifdef __CUDACC__
    flag[i] = value;
    __threadfence_system();
#else
    __atomic_store_n(&flag[i], value, __ATOMIC_RELEASE);
#endif
}

/* ---- embedding --------------------------------------------------------- */

ITEMS(embed)
{
    EACH_ITEM(i, rows * width);
    int row = i / width, column = i % width;
    y[i] = token_weight[tokens[row] * width + column] +
           place_weight[row % length * width + column];
}

ITEMS(embed_token_grad)
{
    EACH_ITEM(i, vocabulary * width);
    int token = i / width, column = i % width;
    float sum = keep ? grad[i] : 0;
    for (int row = 0; row < rows; row++)
        if (tokens[row] == token)
            sum += dy[row * width + column];
    grad[i] = sum;
}

ITEMS(embed_place_grad)
{
    EACH_ITEM(i, places * width);
    int place = i / width, column = i % width;
    float sum = keep ? grad[i] : 0;
    if (place < length)
        for (int row = place; row < rows; row += length)
            sum += dy[row * width + column];
    grad[i] = sum;
}

/* ---- norms ------------------------------------------------------------- */

ROWS(layernorm)
{
    const float *in = x + (int64_t)ROW_INDEX * width;
    float *out = y + (int64_t)ROW_INDEX * width;
    float part = 0;
    LANES(j, width)
        part += in[j];
    float mean = row_sum(part) / (float)width;
    part = 0;
    LANES(j, width)
        part += (in[j] - mean) * (in[j] - mean);
    float scale = 1.0f / sqrtf(row_sum(part) / (float)width + 1e-5f);
    LANES(j, width)
        out[j] = (in[j] - mean) * scale * weight[j] + bias[j];
    if (LEADER) {
        stats[2 * ROW_INDEX] = mean;
        stats[2 * ROW_INDEX + 1] = scale;
    }
}

ROWS(layernorm_grad)
{
    int64_t first = (int64_t)ROW_INDEX * width;
    float mean = stats[2 * ROW_INDEX], scale = stats[2 * ROW_INDEX + 1];
    float part = 0, part_x = 0;
    LANES(j, width) {
        float d = dy[first + j] * weight[j];
        part += d;
        part_x += d * (x[first + j] - mean) * scale;
    }
    float sum = row_sum(part) / (float)width;
    float sum_x = row_sum(part_x) / (float)width;
    LANES(j, width) {
        float normal = (x[first + j] - mean) * scale;
        dx[first + j] = scale * (dy[first + j] * weight[j] - sum -
                                 normal * sum_x);
    }
}

ITEMS(layernorm_weight_grad)
{
    EACH_ITEM(j, width);
    float sum = keep ? dweight[j] : 0, sum_bias = keep ? dbias[j] : 0;
    for (int row = 0; row < rows; row++) {
        float d = dy[row * width + j];
        sum += d * (x[row * width + j] - stats[2 * row]) * stats[2 * row + 1];
        sum_bias += d;
    }
    dweight[j] = sum;
    dbias[j] = sum_bias;
}

ROWS(rmsnorm)
{
    const float *in = x + (int64_t)ROW_INDEX * width;
    float *out = y + (int64_t)ROW_INDEX * width;
    float part = 0;
    LANES(j, width)
        part += in[j] * in[j];
    float scale = 1.0f / sqrtf(row_sum(part) / (float)width + 1e-5f);
    LANES(j, width)
        out[j] = in[j] * scale * weight[j];
    if (LEADER)
        stats[ROW_INDEX] = scale;
}

ROWS(rmsnorm_grad)
{
    int64_t first = (int64_t)ROW_INDEX * width;
    float scale = stats[ROW_INDEX], part = 0;
    LANES(j, width)
        part += dy[first + j] * weight[j] * x[first + j];
    float sum = row_sum(part) / (float)width * scale * scale;
    LANES(j, width)
        dx[first + j] = scale * (dy[first + j] * weight[j] -
                                 x[first + j] * sum);
}

ITEMS(rmsnorm_weight_grad)
{
    EACH_ITEM(j, width);
    float sum = keep ? dweight[j] : 0;
    for (int row = 0; row < rows; row++)
        sum += dy[row * width + j] * x[row * width + j] * stats[row];
    dweight[j] = sum;
}

/* ---- linear layers ----------------------------------------------------- */

/* Four sums side by side: quicker, and still one fixed order. */
HELPER float
dot(const float *a, int a_step, const float *b, int b_step, int n)
{
    float sum0 = 0, sum1 = 0, sum2 = 0, sum3 = 0;
    int l = 0;
    for (; l + 3 < n; l += 4) {
        sum0 += a[(l + 0) * a_step] * b[(l + 0) * b_step];
        sum1 += a[(l + 1) * a_step] * b[(l + 1) * b_step];
        sum2 += a[(l + 2) * a_step] * b[(l + 2) * b_step];
        sum3 += a[(l + 3) * a_step] * b[(l + 3) * b_step];
    }
    for (; l < n; l++)
        sum0 += a[l * a_step] * b[l * b_step];
    return (sum0 + sum1) + (sum2 + sum3);
}

ITEMS(matmul)
{
    EACH_ITEM(at_y, rows * columns);
    int i = at_y / columns, j = at_y % columns;
    float sum = dot(a + (int64_t)i * a_row, a_step, b + (int64_t)j * b_row,
                    b_step, inner);
    if (bias)
        sum += bias[j];
    y[at_y] = keep ? y[at_y] + sum : sum;
}

ITEMS(column_sum)
{
    EACH_ITEM(j, width);
    float sum = keep ? y[j] : 0;
    for (int row = 0; row < rows; row++)
        sum += x[row * width + j];
    y[j] = sum;
}

HELPER float
gelu_inner(float x)
{
    return tanhf(0.7978845608f * (x + 0.044715f * x * x * x));
}

ITEMS(gelu)
{
    EACH_ITEM(i, n);
    y[i] = 0.5f * x[i] * (1.0f + gelu_inner(x[i]));
}

ITEMS(gelu_grad)
{
    EACH_ITEM(i, n);
    float t = gelu_inner(x[i]);
    float slope = (1.0f - t * t) * 0.7978845608f *
                  (1.0f + 3.0f * 0.044715f * x[i] * x[i]);
    dx[i] = dy[i] * (0.5f * (1.0f + t) + 0.5f * x[i] * slope);
}

/* ---- causal attention -------------------------------------------------- */

/* Where a row lies: one row a batch, head and place. */
struct spot {
    int batch, head, place;
    int step;           /* from one place to the next in qkv */
    const float *query; /* of this place */
    const float *key;   /* of place 0 */
    const float *value; /* of place 0 */
};

HELPER struct spot
spot_of(int row, const float *qkv, int length, int heads, int size)
{
    struct spot spot;
    spot.place = row % length;
    spot.head = row / length % heads;
    spot.batch = row / length / heads;
    spot.step = 3 * heads * size;
    spot.key = qkv + (int64_t)spot.batch * length * spot.step +
               heads * size + spot.head * size;
    spot.query = spot.key - heads * size + (int64_t)spot.place * spot.step;
    spot.value = spot.key + heads * size;
    return spot;
}

ROWS(attention)
{
    SHARED(float, score);
    struct spot s = spot_of(ROW_INDEX, qkv, length, heads, size);
    float scale = 1.0f / sqrtf((float)size), top = -1e30f, sum = 0;
    LANES(j, s.place + 1) {
        score[j] = scale * dot(s.query, 1, s.key + j * s.step, 1, size);
        top = fmaxf(top, score[j]);
    }
    top = row_max(top);
    LANES(j, s.place + 1) {
        score[j] = expf(score[j] - top);
        sum += score[j];
    }
    sum = row_sum(sum);
    SYNC_ROW();
    float *out = y + ((int64_t)(s.batch * length + s.place) * heads + s.head) *
                         size;
    LANES(c, size)
        out[c] = dot(score, 1, s.value + c, s.step, s.place + 1) / sum;
    float *row = chance + (int64_t)ROW_INDEX * length;
    LANES(j, length)
        row[j] = j <= s.place ? score[j] / sum : 0;
}

ROWS(attention_grad_query)
{
    struct spot s = spot_of(ROW_INDEX, qkv, length, heads, size);
    const float *d = dy + ((int64_t)(s.batch * length + s.place) * heads +
                           s.head) * size;
    const float *p = chance + (int64_t)ROW_INDEX * length;
    float *ds = dscore + (int64_t)ROW_INDEX * length;
    float scale = 1.0f / sqrtf((float)size), part = 0;
    LANES(j, s.place + 1) {
        ds[j] = dot(d, 1, s.value + j * s.step, 1, size);
        part += ds[j] * p[j];
    }
    float sum = row_sum(part);
    LANES(j, length)
        ds[j] = j <= s.place ? p[j] * (ds[j] - sum) * scale : 0;
    SYNC_ROW();
    float *out = dqkv + (s.query - qkv);
    LANES(c, size)
        out[c] = dot(ds, 1, s.key + c, s.step, s.place + 1);
}

ROWS(attention_grad_key)
{
    struct spot s = spot_of(ROW_INDEX, qkv, length, heads, size);
    int first = ROW_INDEX - s.place, after = length - s.place;
    const float *d = dy + ((int64_t)(s.batch * length + s.place) * heads +
                           s.head) * size;
    const float *p = chance + (int64_t)(first + s.place) * length + s.place;
    const float *ds = dscore + (int64_t)(first + s.place) * length + s.place;
    float *dkey = dqkv + (s.query - qkv) + heads * size;
    float *dvalue = dkey + heads * size;
    LANES(c, size) {
        dkey[c] = dot(ds, length, s.query + c, s.step, after);
        dvalue[c] = dot(p, length, d + c, heads * size, after);
    }
}

/* ---- loss -------------------------------------------------------------- */

ROWS(cross_entropy)
{
    const float *in = logits + (int64_t)ROW_INDEX * width;
    float *p = chance + (int64_t)ROW_INDEX * width;
    float top = -1e30f, sum = 0;
    LANES(j, width)
        top = fmaxf(top, in[j]);
    top = row_max(top);
    LANES(j, width) {
        p[j] = expf(in[j] - top);
        sum += p[j];
    }
    sum = row_sum(sum);
    LANES(j, width)
        p[j] /= sum;
    if (LEADER)
        loss[ROW_INDEX] = logf(sum) + top - in[targets[ROW_INDEX]];
}

ITEMS(cross_entropy_grad)
{
    EACH_ITEM(i, rows * width);
    float hit = i % width == targets[i / width] ? 1.0f : 0.0f;
    dlogits[i] = (chance[i] - hit) * scale;
}

ROWS(mean)
{
    float part = 0;
    LANES(j, n)
        part += x[j];
    part = row_sum(part);
    if (LEADER)
        y[ROW_INDEX] = part * scale;
}

/* ---- dropout ----------------------------------------------------------- */

HELPER uint32_t
random_bits(uint64_t seed, uint64_t counter)
{
    uint64_t z = seed + 0x9e3779b97f4a7c15ull * (counter + 1);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return (uint32_t)((z ^ (z >> 31)) >> 32);
}

ITEMS(dropout)
{
    EACH_ITEM(i, n);
    uint64_t offset = random.captured ? (uint64_t)*random.offset.pointer
                                      : random.offset.value;
    uint32_t bits = random_bits(random.seed,
                                offset + random.inside + (uint64_t)i);
    float kept = (float)(bits >> 8) * (1.0f / 16777216.0f) >= chance;
    y[i] = x[i] * kept / (1.0f - chance);
}

/* ---- gradient norm, two stages ----------------------------------------- */

ROWS(square_sum)
{
    int from = ROW_INDEX * LIST_CHUNK;
    int count = n - from < LIST_CHUNK ? n - from : LIST_CHUNK;
    float part = 0;
    LANES(j, count)
        part += x[from + j] * x[from + j];
    part = row_sum(part);
    if (LEADER)
        parts[first + ROW_INDEX] = part;
}

ROWS(square_sum_list)
{
    int tensor = list.block_tensor[ROW_INDEX];
    int64_t from = (int64_t)list.block_chunk[ROW_INDEX] * LIST_CHUNK;
    int64_t left = list.numel[tensor] - from;
    const float *x = list.address[0][tensor] + from;
    int count = left < LIST_CHUNK ? (int)left : LIST_CHUNK;
    float part = 0;
    LANES(j, count)
        part += x[j] * x[j];
    part = row_sum(part);
    if (LEADER)
        parts[first + ROW_INDEX] = part;
}

/* result[0] is the norm, result[1] what brings it under the limit. */
ROWS(norm_of)
{
    float part = 0;
    LANES(j, count)
        part += parts[j];
    float norm = sqrtf(row_sum(part));
    if (LEADER) {
        result[2 * ROW_INDEX] = norm;
        result[2 * ROW_INDEX + 1] =
            norm > limit ? limit / (norm + 1e-6f) : 1.0f;
    }
}

ITEMS(clip)
{
    EACH_ITEM(i, n);
    y[i] *= norm[1];
}

/* ---- optimizers -------------------------------------------------------- */

HELPER float
adam_direction(float grad, float *first, float *second, struct adam adam)
{
    *first = adam.beta1 * *first + (1.0f - adam.beta1) * grad;
    *second = adam.beta2 * *second + (1.0f - adam.beta2) * grad * grad;
    return *first / adam.correct1 /
           (sqrtf(*second / adam.correct2) + adam.epsilon);
}

ITEMS(adamw)
{
    EACH_ITEM(i, n);
    struct adam adam = {rate, beta1, beta2, epsilon, decay, correct1, correct2};
    float step = adam_direction(grad[i], &first[i], &second[i], adam);
    weight[i] -= rate * (step + decay * weight[i]);
}

ROWS(adamw_list)
{
    int tensor = list.block_tensor[ROW_INDEX];
    int64_t from = (int64_t)list.block_chunk[ROW_INDEX] * LIST_CHUNK;
    int64_t left = list.numel[tensor] - from;
    int count = left < LIST_CHUNK ? (int)left : LIST_CHUNK;
    float *weight = list.address[0][tensor] + from;
    const float *grad = list.address[1][tensor] + from;
    float *first = list.address[2][tensor] + from;
    float *second = list.address[3][tensor] + from;
    LANES(i, count) {
        float step = adam_direction(grad[i], &first[i], &second[i], adam);
        weight[i] -= adam.rate * (step + adam.decay * weight[i]);
    }
}

ITEMS(sgd)
{
    EACH_ITEM(i, n);
    speed[i] = momentum * speed[i] + grad[i];
    weight[i] -= rate * speed[i];
}

ITEMS(lamb_direction)
{
    EACH_ITEM(i, n);
    direction[i] = adam_direction(grad[i], &first[i], &second[i], adam) +
                   adam.decay * weight[i];
}

ITEMS(lamb_apply)
{
    EACH_ITEM(i, n);
    float ratio = direction_norm[0] > 0 && weight_norm[0] > 0
                      ? weight_norm[0] / direction_norm[0]
                      : 1.0f;
    weight[i] -= rate * ratio * direction[i];
}

#ifndef __CUDACC__

GLOBAL const struct dcpsim_kernel dcpsim_kernels[] = {
    KERNELS(ENTRY){NULL, NULL, 0, 0, NULL},
};

#endif
