/* SPDX-License-Identifier: Apache-2.0 */
/* Optimizers: one launch a tensor (adam, sgd), lists of tensors in one launch
 * (adam_multi), and one that is not element by element (lamb). */
#include "tests/programs/model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int
chunks_of(const struct weight *w)
{
    return (w->count + LIST_CHUNK - 1) / LIST_CHUNK;
}

static float *
zeros(int count)
{
    size_t bytes = (size_t)count * sizeof(float);
    float *at = rt_alloc(bytes);
    CU(cuMemsetD8Async, rt_ptr(at), 0, bytes, rt_stream);
    return at;
}

/* States come into being at the first step. */
static void
make_states(struct model *m, bool second)
{
    if (m->flat) {
        m->flat_first = zeros(m->total);
        m->flat_second = second ? zeros(m->total) : NULL;
    }
    int at = 0;
    for (int i = 0; i < m->weight_count; i++) {
        struct weight *w = m->weights[i];
        w->first = m->flat ? m->flat_first + at : zeros(w->count);
        if (second)
            w->second = m->flat ? m->flat_second + at : zeros(w->count);
        at += w->count;
    }
}

/* ---- lists of tensors -------------------------------------------------- */

/* Fills the list with what an earlier use of this piece of stack might have
 * left there: numbers, and pointers to memory that is alive or long gone. */
static void
leave_rubbish(struct tensor_list *list, const struct model *m)
{
    static uint64_t state = 99;
    uint64_t *words = (uint64_t *)list;
    for (size_t i = 0; i < sizeof *list / sizeof *words; i++) {
        state = state * 6364136223846793005ull + 1442695040888963407ull;
        const struct weight *w =
            m->weights[(state >> 33) % (unsigned)m->weight_count];
        words[i] = state >> 63 ? state
                               : (uint64_t)(uintptr_t)(w->at + (state >> 60));
    }
}

struct list_walk {
    struct tensor_list list;
    int tensors, blocks;
    int first; /* of the parts of the sum of squares */
    float *parts;
    struct adam adam;
    const struct model *model;
};

static void
list_launch(struct list_walk *walk)
{
    if (walk->blocks == 0)
        return;
    if (walk->parts)
        k_square_sum_list(rows((size_t)walk->blocks), walk->parts, walk->first,
                          walk->list);
    else
        k_adamw_list(rows((size_t)walk->blocks), walk->list, walk->adam);
    walk->first += walk->blocks;
    walk->tensors = walk->blocks = 0;
    leave_rubbish(&walk->list, walk->model);
}

static void
list_add(struct list_walk *walk, const struct weight *w)
{
    struct tensor_list *list = &walk->list;
    int slot = -1;
    for (int chunk = 0; chunk < chunks_of(w); chunk++) {
        if (walk->blocks == LIST_BLOCKS ||
            (slot < 0 && walk->tensors == LIST_TENSORS)) {
            list_launch(walk);
            slot = -1;
        }
        if (slot < 0) {
            slot = walk->tensors++;
            list->address[0][slot] = walk->parts ? w->grad : w->at;
            list->numel[slot] = w->count;
            if (walk->parts == NULL) {
                list->address[1][slot] = w->grad;
                list->address[2][slot] = w->first;
                list->address[3][slot] = w->second;
            }
        }
        list->block_tensor[walk->blocks] = (unsigned char)slot;
        list->block_chunk[walk->blocks++] = chunk;
    }
}

static void
list_all(struct model *m, float *parts, struct adam adam)
{
    struct list_walk walk;
    walk.tensors = walk.blocks = walk.first = 0;
    walk.parts = parts;
    walk.adam = adam;
    walk.model = m;
    leave_rubbish(&walk.list, m);
    for (int i = 0; i < m->weight_count; i++)
        list_add(&walk, m->weights[i]);
    list_launch(&walk);
}

/* ---- clipping ---------------------------------------------------------- */

static int
all_chunks(const struct model *m)
{
    int count = 0;
    for (int i = 0; i < m->weight_count; i++)
        count += chunks_of(m->weights[i]);
    return count;
}

static void
scale_by_host(struct model *m, const float *norm)
{
    float host[2];
    rt_read(host, norm, sizeof host);
    if (host[1] == 1.0f)
        return;
    for (int i = 0; i < m->weight_count; i++)
        k_scale(items((size_t)m->weights[i]->count), m->weights[i]->grad,
                host[1], m->weights[i]->count);
}

static void
clip_grads(struct model *m, const struct optim *o, bool multi)
{
    int count = all_chunks(m), first = 0;
    float *parts = rt_alloc((size_t)count * sizeof(float));
    float *norm = rt_alloc(2 * sizeof(float));
    if (multi)
        list_all(m, parts, (struct adam){0});
    for (int i = 0; i < m->weight_count && !multi; i++) {
        const struct weight *w = m->weights[i];
        k_square_sum(rows((size_t)chunks_of(w)), parts, w->grad, first,
                     w->count);
        first += chunks_of(w);
    }
    k_norm_of(rows(1), norm, parts, count, o->clip);
    rt_free(parts);
    if (o->host_clip)
        scale_by_host(m, norm);
    for (int i = 0; i < m->weight_count && !o->host_clip; i++)
        k_clip(items((size_t)m->weights[i]->count), m->weights[i]->grad, norm,
               m->weights[i]->count);
    rt_free(norm);
}

/* ---- steps ------------------------------------------------------------- */

static struct adam
adam_of(const struct optim *o)
{
    struct adam adam = {o->rate, 0.9f, 0.98f, 1e-8f, 0.01f, 0, 0};
    adam.correct1 = 1.0f - powf(adam.beta1, (float)o->steps);
    adam.correct2 = 1.0f - powf(adam.beta2, (float)o->steps);
    return adam;
}

static void
adam_step(struct weight *w, struct adam a)
{
    k_adamw(items((size_t)w->count), w->at, w->grad, w->first, w->second,
            w->count, a.rate, a.beta1, a.beta2, a.epsilon, a.decay, a.correct1,
            a.correct2);
}

static void
norm_into(float *norm, const float *x, const struct weight *w)
{
    float *parts = rt_alloc((size_t)chunks_of(w) * sizeof(float));
    k_square_sum(rows((size_t)chunks_of(w)), parts, x, 0, w->count);
    k_norm_of(rows(1), norm, parts, chunks_of(w), 1.0f);
    rt_free(parts);
}

static void
lamb_step(struct weight *w, struct adam a)
{
    float *direction = rt_alloc((size_t)w->count * sizeof(float));
    float *norms = rt_alloc(4 * sizeof(float));
    k_lamb_direction(items((size_t)w->count), direction, w->at, w->grad,
                     w->first, w->second, w->count, a);
    norm_into(norms, w->at, w);
    norm_into(norms + 2, direction, w);
    k_lamb_apply(items((size_t)w->count), w->at, direction, norms, norms + 2,
                 w->count, a.rate);
    rt_free(norms);
    rt_free(direction);
}

void
optim_step(struct model *m, struct optim *o)
{
    bool multi = strcmp(o->kind, "adam_multi") == 0;
    bool sgd = strcmp(o->kind, "sgd") == 0;
    bool lamb = strcmp(o->kind, "lamb") == 0;
    if (!multi && !sgd && !lamb && strcmp(o->kind, "adam") != 0) {
        fprintf(stderr, "unknown optimizer %s\n", o->kind);
        rt_end(2);
    }
    if (o->steps++ == 0)
        make_states(m, !sgd);
    if (o->clip > 0)
        clip_grads(m, o, multi);
    struct adam adam = adam_of(o);
    if (multi)
        list_all(m, NULL, adam);
    for (int i = 0; i < m->weight_count && !multi; i++) {
        struct weight *w = m->weights[i];
        if (sgd)
            k_sgd(items((size_t)w->count), w->at, w->grad, w->first, w->count,
                  o->rate, 0.9f);
        else if (lamb)
            lamb_step(w, adam);
        else
            adam_step(w, adam);
    }
}
