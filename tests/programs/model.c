/* SPDX-License-Identifier: Apache-2.0 */
/* The transformer's weights, and its forward and backward pass. */
#include "tests/programs/model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static float *
new_floats(size_t count)
{
    return rt_alloc(count * sizeof(float));
}

/* ---- weights ----------------------------------------------------------- */

static void
weight_add(struct model *m, struct weight *weight, int count)
{
    memset(weight, 0, sizeof *weight);
    weight->count = count;
    m->weights[m->weight_count++] = weight;
    m->total += count;
}

static void
list_weights(struct model *m)
{
    int c = m->hidden;
    const int sizes[LAYER_WEIGHTS] = {
        [NORM1] = c,      [NORM1_BIAS] = c,   [QKV] = 3 * c * c,
        [QKV_BIAS] = 3 * c, [OUT] = c * c,    [OUT_BIAS] = c,
        [NORM2] = c,      [NORM2_BIAS] = c,   [UP] = 4 * c * c,
        [UP_BIAS] = 4 * c, [DOWN] = 4 * c * c, [DOWN_BIAS] = c,
    };
    m->weight_count = m->total = m->steps = 0;
    weight_add(m, &m->token, VOCABULARY * c);
    weight_add(m, &m->place, m->length * c);
    for (int l = 0; l < m->layers; l++)
        for (int w = 0; w < LAYER_WEIGHTS; w++)
            weight_add(m, &m->layer[l][w], sizes[w]);
    weight_add(m, &m->last_norm, c);
    weight_add(m, &m->head, VOCABULARY * c);
}

static float
draw(uint64_t *state)
{
    *state = *state * 6364136223846793005ull + 1442695040888963407ull;
    return (float)(*state >> 40) / 16777216.0f - 0.5f;
}

/* Norms start as 1, biases as 0, the rest at random. */
static void
draw_weights(struct model *m, int which, float *values, uint64_t *state)
{
    int kind = which < 2 || which >= m->weight_count - 2
                   ? -1
                   : (which - 2) % LAYER_WEIGHTS;
    bool one = kind == NORM1 || kind == NORM2 ||
               which == m->weight_count - 2;
    bool zero = kind == NORM1_BIAS || kind == NORM2_BIAS ||
                kind == QKV_BIAS || kind == OUT_BIAS || kind == UP_BIAS ||
                kind == DOWN_BIAS;
    float size = 1.0f / sqrtf((float)m->hidden);
    for (int i = 0; i < m->weights[which]->count; i++)
        values[i] = one ? 1.0f : zero ? 0.0f : size * draw(state);
}

static void
place_flat(struct model *m)
{
    m->flat_at = new_floats((size_t)m->total);
    m->flat_grad = new_floats((size_t)m->total);
    int first = 0;
    for (int i = 0; i < m->weight_count; i++) {
        m->weights[i]->at = m->flat_at + first;
        m->weights[i]->grad = m->flat_grad + first;
        first += m->weights[i]->count;
    }
}

void
model_open(struct model *m)
{
    list_weights(m);
    if (m->flat)
        place_flat(m);
    uint64_t state = 42;
    for (int i = 0; i < m->weight_count; i++) {
        size_t bytes = (size_t)m->weights[i]->count * sizeof(float);
        float *values = malloc(bytes);
        if (values == NULL)
            abort();
        draw_weights(m, i, values, &state);
        if (!m->flat)
            m->weights[i]->at = rt_alloc(bytes);
        rt_upload(m->weights[i]->at, values, bytes);
        free(values);
    }
    CU(cuStreamSynchronize, rt_stream);
}

void
model_free(struct model *m)
{
    if (!m->flat)
        model_zero_grad(m);
    for (int i = 0; i < m->weight_count && !m->flat; i++) {
        rt_free(m->weights[i]->at);
        rt_free(m->weights[i]->first);
        rt_free(m->weights[i]->second);
    }
    rt_free(m->flat_at);
    rt_free(m->flat_grad);
    rt_free(m->flat_first);
    rt_free(m->flat_second);
}

static uint64_t
hash_and_save(const float *at, int count, uint64_t hash, FILE *out)
{
    size_t bytes = (size_t)count * sizeof(float);
    float *values = malloc(bytes);
    if (values == NULL)
        abort();
    rt_read(values, at, bytes);
    hash = rt_hash(hash, values, bytes);
    if (out && fwrite(values, 1, bytes, out) != bytes)
        fprintf(stderr, "cannot write: %m\n");
    free(values);
    return hash;
}

void
model_print(struct model *m, const char *file)
{
    FILE *out = file && *file ? fopen(file, "wb") : NULL;
    uint64_t hash = RT_HASH_START, state = RT_HASH_START;
    for (int i = 0; i < m->weight_count; i++) {
        const struct weight *w = m->weights[i];
        hash = hash_and_save(w->at, w->count, hash, out);
        if (w->first)
            state = hash_and_save(w->first, w->count, state, out);
        if (w->second)
            state = hash_and_save(w->second, w->count, state, out);
    }
    if (out)
        fclose(out);
    rt_print("params %016llx state %016llx\n", (unsigned long long)hash,
             (unsigned long long)state);
}

/* ---- operations -------------------------------------------------------- */

/* A copy of the weight that went through bf16 and back, as automatic mixed
 * precision makes one in each forward pass. */
static float *
rounded_copy(const struct weight *w)
{
    uint16_t *half = rt_alloc((size_t)w->count * sizeof *half);
    float *copy = new_floats((size_t)w->count);
    k_cast_to_bf16(items((size_t)w->count), half, w->at, w->count);
    k_cast_from_bf16(items((size_t)w->count), copy, half, w->count);
    rt_free(half);
    return copy;
}

static float *
linear(const struct model *m, const float *x, const struct weight *w,
       const struct weight *bias, int count, int out, int in)
{
    float *y = new_floats((size_t)count * out);
    float *copy = m->rounded ? rounded_copy(w) : NULL;
    k_matmul(items((size_t)count * out), y, x, copy ? copy : w->at,
             bias ? bias->at : NULL, count, out, in, in, 1, in, 1, 0);
    rt_free(copy);
    return y;
}

/* Where the gradient goes, and whether it is added to what is there. */
static int
grad_of(struct weight *w)
{
    if (w->grad)
        return 1;
    w->grad = new_floats((size_t)w->count);
    return 0;
}

/* Returns the gradient of the input; frees dy and x. */
static float *
linear_back(float *dy, float *x, struct weight *w, struct weight *bias,
            int count, int out, int in)
{
    float *dx = new_floats((size_t)count * in);
    k_matmul(items((size_t)count * in), dx, dy, w->at, NULL, count, in, out,
             out, 1, 1, in, 0);
    int keep = grad_of(w);
    k_matmul(items((size_t)out * in), w->grad, dy, x, NULL, out, in, count, 1,
             out, 1, in, keep);
    if (bias) {
        keep = grad_of(bias);
        k_column_sum(items((size_t)out), bias->grad, dy, count, out, keep);
    }
    rt_free(dy);
    rt_free(x);
    return dx;
}

static float *
norm(const float *x, float **stats, const struct weight *w, int count,
     int width)
{
    float *y = new_floats((size_t)count * width);
    *stats = new_floats(2 * (size_t)count);
    k_layernorm(rows((size_t)count), y, *stats, x, w[0].at, w[1].at, width);
    return y;
}

/* Adds the norm's input gradient to dx; frees dy, x and stats. */
static void
norm_back(float *dx, float *dy, float *x, float *stats, struct weight *w,
          int count, int width)
{
    float *part = new_floats((size_t)count * width);
    k_layernorm_grad(rows((size_t)count), part, dy, x, stats, w[0].at, width);
    int keep = grad_of(&w[0]);
    grad_of(&w[1]);
    k_layernorm_weight_grad(items((size_t)width), w[0].grad, w[1].grad, dy, x,
                            stats, count, width, keep);
    k_axpy(items((size_t)count * width), dx, 1.0f, part, count * width);
    rt_free(part);
    rt_free(dy);
    rt_free(x);
    rt_free(stats);
}

static struct generator
generator_at(const struct model *m, uint64_t offset)
{
    struct generator random;
    random.seed = m->seed;
    random.offset.value = offset;
    random.inside = 1;
    random.captured = 0;
    return random;
}

/* In place; remembers in *at where the generator stood. */
static void
drop(struct model *m, float *x, int n, uint64_t *at)
{
    if (m->dropout <= 0)
        return;
    *at = m->offset;
    k_dropout(items((size_t)n), x, x, m->dropout, generator_at(m, *at), n);
    m->offset += ((uint64_t)n + 3) / 4 * 4;
}

/* A copy of dy as the dropped branch sees it. */
static float *
drop_back(struct model *m, const float *dy, int n, uint64_t at)
{
    float *dx = new_floats((size_t)n);
    if (m->dropout > 0)
        k_dropout(items((size_t)n), dx, dy, m->dropout, generator_at(m, at),
                  n);
    else
        k_copy(items((size_t)n), dx, dy, n);
    return dx;
}

/* ---- a layer ----------------------------------------------------------- */

static float *
layer_forward(struct model *m, struct weight *w, const struct batch *b,
              struct saved_layer *s, float *x)
{
    int c = m->hidden, count = b->count * b->length, size = c / m->heads;
    size_t spots = (size_t)count * m->heads;
    s->x = x;
    s->normal1 = norm(x, &s->stats1, &w[NORM1], count, c);
    s->qkv = linear(m, s->normal1, &w[QKV], &w[QKV_BIAS], count, 3 * c, c);
    s->context = new_floats((size_t)count * c);
    s->chance = new_floats(spots * b->length);
    struct rt_size over = rows(spots);
    over.shared = (unsigned)b->length * sizeof(float);
    k_attention(over, s->context, s->chance, s->qkv, b->length, m->heads,
                size);
    float *branch = linear(m, s->context, &w[OUT], &w[OUT_BIAS], count, c, c);
    drop(m, branch, count * c, &s->drop1);
    s->middle = new_floats((size_t)count * c);
    k_add(items((size_t)count * c), s->middle, x, branch, count * c);
    rt_free(branch);
    s->normal2 = norm(s->middle, &s->stats2, &w[NORM2], count, c);
    s->up = linear(m, s->normal2, &w[UP], &w[UP_BIAS], count, 4 * c, c);
    s->active = new_floats((size_t)count * 4 * c);
    k_gelu(items((size_t)count * 4 * c), s->active, s->up, count * 4 * c);
    branch = linear(m, s->active, &w[DOWN], &w[DOWN_BIAS], count, c, 4 * c);
    drop(m, branch, count * c, &s->drop2);
    float *y = new_floats((size_t)count * c);
    k_add(items((size_t)count * c), y, s->middle, branch, count * c);
    rt_free(branch);
    return y;
}

static float *
attention_back(const struct model *m, const struct batch *b,
               struct saved_layer *s, float *dcontext)
{
    int c = m->hidden, size = c / m->heads;
    size_t spots = (size_t)b->count * b->length * m->heads;
    float *dqkv = new_floats((size_t)b->count * b->length * 3 * c);
    float *dscore = new_floats(spots * b->length);
    k_attention_grad_query(rows(spots), dqkv, dscore, dcontext, s->chance,
                           s->qkv, b->length, m->heads, size);
    k_attention_grad_key(rows(spots), dqkv, dcontext, s->chance, dscore,
                         s->qkv, b->length, m->heads, size);
    rt_free(dscore);
    rt_free(dcontext);
    rt_free(s->chance);
    rt_free(s->qkv);
    return dqkv;
}

/* Turns dy, which it frees, into the gradient of the layer's input. */
static float *
layer_back(struct model *m, struct weight *w, const struct batch *b,
           struct saved_layer *s, float *dy)
{
    int c = m->hidden, count = b->count * b->length, n = count * c;
    float *d = drop_back(m, dy, n, s->drop2);
    d = linear_back(d, s->active, &w[DOWN], &w[DOWN_BIAS], count, c, 4 * c);
    float *dup = new_floats((size_t)4 * n);
    k_gelu_grad(items((size_t)4 * n), dup, d, s->up, 4 * n);
    rt_free(d);
    rt_free(s->up);
    d = linear_back(dup, s->normal2, &w[UP], &w[UP_BIAS], count, 4 * c, c);
    norm_back(dy, d, s->middle, s->stats2, &w[NORM2], count, c);
    d = drop_back(m, dy, n, s->drop1);
    d = linear_back(d, s->context, &w[OUT], &w[OUT_BIAS], count, c, c);
    d = attention_back(m, b, s, d);
    d = linear_back(d, s->normal1, &w[QKV], &w[QKV_BIAS], count, 3 * c, c);
    norm_back(dy, d, s->x, s->stats1, &w[NORM1], count, c);
    return dy;
}

static void
layer_forget(struct saved_layer *s)
{
    float *const all[] = {s->x,      s->stats1, s->normal1, s->qkv,
                          s->chance, s->context, s->middle, s->stats2,
                          s->normal2, s->up,    s->active};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        rt_free(all[i]);
}

/* ---- the whole --------------------------------------------------------- */

static float *
head_forward(struct model *m, const struct batch *b, float scale,
             struct tape *t)
{
    int c = m->hidden, count = b->count * b->length;
    t->normal = new_floats((size_t)count * c);
    t->stats = new_floats((size_t)count);
    k_rmsnorm(rows((size_t)count), t->normal, t->stats, t->x, m->last_norm.at,
              c);
    float *logits = linear(m, t->normal, &m->head, NULL, count, VOCABULARY, c);
    float *losses = new_floats((size_t)count);
    t->chance = new_floats((size_t)count * VOCABULARY);
    k_cross_entropy(rows((size_t)count), losses, t->chance, logits, b->targets,
                    VOCABULARY);
    rt_free(logits);
    float *loss = new_floats(1);
    k_mean(rows(1), loss, losses, scale / (float)count, count);
    rt_free(losses);
    return loss;
}

float *
model_forward(struct model *m, const struct batch *b, float scale,
              struct tape *tape)
{
    struct tape own;
    struct tape *t = tape ? tape : &own;
    float dropout = m->dropout;
    if (tape == NULL)
        m->dropout = 0;
    int count = b->count * b->length;
    float *x = new_floats((size_t)count * m->hidden);
    k_embed(items((size_t)count * m->hidden), x, b->tokens, m->token.at,
            m->place.at, count, b->length, m->hidden);
    for (int l = 0; l < m->layers; l++) {
        x = layer_forward(m, m->layer[l], b, &t->layer[l], x);
        if (tape == NULL)
            layer_forget(&t->layer[l]);
    }
    t->x = x;
    float *loss = head_forward(m, b, scale, t);
    if (tape == NULL) {
        rt_free(t->x);
        rt_free(t->stats);
        rt_free(t->normal);
        rt_free(t->chance);
    }
    m->dropout = dropout;
    return loss;
}

static float *
head_back(struct model *m, const struct batch *b, float scale, struct tape *t)
{
    int c = m->hidden, count = b->count * b->length;
    float *dlogits = new_floats((size_t)count * VOCABULARY);
    k_cross_entropy_grad(items((size_t)count * VOCABULARY), dlogits, t->chance,
                         b->targets, scale / (float)count, count, VOCABULARY);
    rt_free(t->chance);
    float *d =
        linear_back(dlogits, t->normal, &m->head, NULL, count, VOCABULARY, c);
    float *dx = new_floats((size_t)count * c);
    k_rmsnorm_grad(rows((size_t)count), dx, d, t->x, t->stats, m->last_norm.at,
                   c);
    int keep = grad_of(&m->last_norm);
    k_rmsnorm_weight_grad(items((size_t)c), m->last_norm.grad, d, t->x,
                          t->stats, count, c, keep);
    rt_free(d);
    rt_free(t->x);
    rt_free(t->stats);
    return dx;
}

void
model_backward(struct model *m, const struct batch *b, float scale,
               struct tape *t)
{
    int c = m->hidden, count = b->count * b->length;
    float *dx = head_back(m, b, scale, t);
    for (int l = m->layers - 1; l >= 0; l--)
        dx = layer_back(m, m->layer[l], b, &t->layer[l], dx);
    int keep = grad_of(&m->token);
    k_embed_token_grad(items((size_t)VOCABULARY * c), m->token.grad, dx,
                       b->tokens, count, c, VOCABULARY, keep);
    keep = grad_of(&m->place);
    k_embed_place_grad(items((size_t)m->length * c), m->place.grad, dx, count,
                       b->length, c, m->length, keep);
    rt_free(dx);
}

void
model_zero_grad(struct model *m)
{
    if (m->flat) {
        CU(cuMemsetD8Async, rt_ptr(m->flat_grad), 0,
           (size_t)m->total * sizeof(float), rt_stream);
        return;
    }
    for (int i = 0; i < m->weight_count; i++) {
        rt_free(m->weights[i]->grad);
        m->weights[i]->grad = NULL;
    }
}
