/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "tests/training_log.h"

#include "capture/kernel.h"

#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NONE = UINT32_MAX, STREAM = 7, CHUNK = 24, KERNELS = 256 };

/* Where fixed memory comes from: one block each, as in a program written in C
 * by hand. */
enum pool { NO_POOL, PARAMS, GRADS, FIRST, SECOND, REST, POOLS };

/* A place in memory: a block, or a part of one. */
struct place {
    uint32_t buffer;
    uint64_t offset;
};

struct layer {
    struct place weight[4], norm, mean, var;
    struct place saved[7]; /* activations of one step */
};

struct maker {
    const struct training *t;
    struct dcp_log *log;
    struct training_facts *facts;
    uint32_t call_room, buffer_room;
    struct dcp_kernel *kernels[KERNELS];
    uint32_t kernel_count;
    uint16_t thread;

    struct layer *layers;
    struct place embed, head, freq;
    struct place pools[POOLS]; /* with fixed memory */
    uint64_t pool_used[POOLS];
    uint32_t pool;
    struct place *params, *grads, *first, *second; /* by parameter */
    uint64_t *sizes;
    uint32_t param_count;
    struct place logits, x; /* of the step under way */
    uint32_t step, micro, length;
};

static const struct dcp_kernel *
kernel(struct maker *m, const char *name)
{
    for (uint32_t i = 0; i < m->kernel_count; i++)
        if (!strcmp(m->kernels[i]->name, name))
            return m->kernels[i];
    struct dcp_kernel *k = calloc(1, sizeof *k);
    k->id = m->kernel_count + 1;
    k->name = strdup(name);
    m->kernels[m->kernel_count++] = k;
    return k;
}

static struct dcp_call *
add_call(struct maker *m, enum dcp_call_op op, uint32_t refs)
{
    struct dcp_log *log = m->log;

    if (log->call_count == m->call_room) {
        m->call_room = m->call_room ? m->call_room * 2 : 1024;
        log->calls = realloc(log->calls, m->call_room * sizeof *log->calls);
    }
    struct dcp_call *call = &log->calls[log->call_count++];
    *call = (struct dcp_call){.op = op, .stream = STREAM, .thread = m->thread};
    call->ref_count = (uint16_t)refs;
    call->refs = refs ? calloc(refs, sizeof *call->refs) : NULL;
    return call;
}

static struct place
fresh(struct maker *m, uint64_t bytes)
{
    struct dcp_log *log = m->log;

    if (m->pool) {
        struct place place = {m->pools[m->pool].buffer, m->pool_used[m->pool]};
        m->pool_used[m->pool] += (bytes + 255) & ~255ull;
        return place;
    }
    if (log->buffer_count == m->buffer_room) {
        m->buffer_room = m->buffer_room ? m->buffer_room * 2 : 256;
        log->buffers =
            realloc(log->buffers, m->buffer_room * sizeof *log->buffers);
    }
    struct dcp_log_buffer *b = &log->buffers[log->buffer_count];
    *b = (struct dcp_log_buffer){
        .block = log->buffer_count + 1,
        .address = (uint64_t)(log->buffer_count + 1) << 28,
        .bytes = bytes,
        .alloc_call = log->call_count,
        .free_call = UINT32_MAX,
    };
    struct dcp_call *call = add_call(m, DCP_CALL_ALLOC, 0);
    call->memory.buffer = log->buffer_count;
    call->memory.address = b->address;
    call->memory.bytes = bytes;
    return (struct place){log->buffer_count++, 0};
}

static void
drop(struct maker *m, struct place place)
{
    if (place.buffer == NONE || m->t->fixed_memory)
        return;
    m->log->buffers[place.buffer].free_call = m->log->call_count;
    struct dcp_call *call = add_call(m, DCP_CALL_FREE, 0);
    call->memory.buffer = place.buffer;
    call->memory.address = m->log->buffers[place.buffer].address;
    call->memory.bytes = m->log->buffers[place.buffer].bytes;
}

static struct dcp_call *
launch(struct maker *m, const char *name, const struct place *places,
       uint32_t count)
{
    struct dcp_call *call = add_call(m, DCP_CALL_LAUNCH, count);

    call->launch.kernel = kernel(m, name);
    for (int i = 0; i < 3; i++)
        call->launch.grid[i] = call->launch.block[i] = 1;
    call->launch.grid[0] = m->length + 1;
    call->launch.block[0] = 128;
    for (uint32_t i = 0; i < count && places; i++)
        call->refs[i] =
            (struct dcp_ref){places[i].buffer, i * 8, places[i].offset};
    return call;
}

#define LAUNCH(m, name, ...)                                                   \
    launch(m, name, (struct place[]){__VA_ARGS__},                             \
           sizeof((struct place[]){__VA_ARGS__}) / sizeof(struct place))

static void
fill(struct maker *m, struct place place, uint64_t bytes)
{
    struct dcp_call *call = add_call(m, DCP_CALL_FILL, 1);

    call->fill.width = bytes;
    call->fill.height = 1;
    call->fill.element = 1;
    call->refs[0] = (struct dcp_ref){place.buffer, 0, place.offset};
}

static void
upload(struct maker *m, struct place place, uint64_t bytes)
{
    struct dcp_call *call = add_call(m, DCP_CALL_COPY, 1);

    call->copy.bytes = bytes;
    call->copy.src_place = DCP_PLACE_PAGEABLE;
    call->refs[0] = (struct dcp_ref){place.buffer, 0, place.offset};
}

static void
download(struct maker *m, struct place place)
{
    struct dcp_call *call = add_call(m, DCP_CALL_COPY, 1);

    call->copy.bytes = 4;
    call->copy.dst_place = DCP_PLACE_PAGEABLE;
    call->refs[0] = (struct dcp_ref){place.buffer, 8, place.offset};
    add_call(m, DCP_CALL_WAIT, 0);
}

static void
set_pool(struct maker *m, enum pool pool)
{
    m->pool = m->t->fixed_memory ? pool : NO_POOL;
}

static struct place
parameter(struct maker *m, uint64_t bytes)
{
    struct place place = fresh(m, bytes);

    upload(m, place, bytes);
    m->params[m->param_count] = place;
    m->sizes[m->param_count] = bytes;
    m->grads[m->param_count].buffer = NONE;
    m->param_count++;
    return place;
}

static void
build(struct maker *m)
{
    uint32_t most = m->t->layers * 6 + 8;

    m->layers = calloc(m->t->layers, sizeof *m->layers);
    m->params = calloc(most, sizeof *m->params);
    m->grads = calloc(most, sizeof *m->params);
    m->first = calloc(most, sizeof *m->params);
    m->second = calloc(most, sizeof *m->params);
    m->sizes = calloc(most, sizeof *m->sizes);
    for (uint32_t i = 1; i < POOLS && m->t->fixed_memory; i++)
        m->pools[i] = fresh(m, 1ull << 27);
    set_pool(m, PARAMS);
    m->embed = parameter(m, 1 << 20);
    m->freq = fresh(m, 256);
    upload(m, m->freq, 256);
    for (uint32_t l = 0; l < m->t->layers; l++) {
        struct layer *layer = &m->layers[l];
        for (uint32_t w = 0; w < 4; w++)
            layer->weight[w] = parameter(m, (1 << 18) + 4096 * w);
        layer->norm = parameter(m, 4096);
        layer->mean = m->t->stats ? fresh(m, 4096) : layer->norm;
        layer->var = m->t->stats ? fresh(m, 4096) : layer->norm;
    }
    m->head = parameter(m, 1 << 20);
    for (uint32_t i = 0; i < m->t->init_calls; i++)
        LAUNCH(m, "init", m->params[i % m->param_count]);
    set_pool(m, REST);
}

/* Kernels chosen by shape differ in name, and one length needs one more. */
static struct place
gemm(struct maker *m, struct place in, struct place weight, uint64_t bytes)
{
    char name[32];
    struct place out = fresh(m, bytes * (m->length + 1));

    snprintf(name, sizeof name, "gemm_%u", m->length);
    LAUNCH(m, name, in, weight, out);
    if (m->length % 3 == 1)
        LAUNCH(m, "splitk_reduce", out);
    return out;
}

static void
layer_forward(struct maker *m, struct layer *l, struct place *h, bool save)
{
    struct place norm = fresh(m, 1 << 16);

    LAUNCH(m, "rms", *h, l->norm, norm);
    if (m->t->stats)
        LAUNCH(m, save ? "bn_train" : "bn_eval", norm, l->norm, l->mean,
               l->var);
    struct place qkv = gemm(m, norm, l->weight[0], 3 << 16);
    LAUNCH(m, "rope", qkv, m->layers[0].saved[5]);
    struct place att = fresh(m, 1 << 16), lse = fresh(m, 1 << 10);
    LAUNCH(m, save ? "attention" : "attention_eval", qkv, att, lse);
    struct place out = gemm(m, att, l->weight[1], 1 << 16);
    LAUNCH(m, "add", out, *h);
    struct place up = gemm(m, out, l->weight[2], 4 << 16);
    struct place act = fresh(m, 4 << 16);
    LAUNCH(m, "silu", up, act);
    struct place next = gemm(m, act, l->weight[3], 1 << 16);
    LAUNCH(m, "add", next, out);
    drop(m, out);
    if (save) {
        struct place saved[] = {norm, qkv, att, lse, up};
        drop(m, act);
        memcpy(l->saved, saved, sizeof saved);
        l->saved[6] = *h;
    } else {
        drop(m, norm), drop(m, qkv), drop(m, att), drop(m, lse);
        drop(m, up), drop(m, act), drop(m, *h);
    }
    *h = next;
}

/* The loss; the last hidden state stays in *h. */
static struct place
forward(struct maker *m, struct place *h, bool save)
{
    struct place x = fresh(m, 4096 * (m->length + 1));
    struct place loss, logits, cos = fresh(m, 8192);

    upload(m, x, 4096);
    *h = fresh(m, 1 << 16);
    LAUNCH(m, "embedding", m->embed, x, *h);
    LAUNCH(m, "rotary", m->freq, cos);
    m->layers[0].saved[5] = cos;
    for (uint32_t l = 0; l < m->t->layers; l++)
        layer_forward(m, &m->layers[l], h, save);
    logits = gemm(m, *h, m->head, 1 << 20);
    loss = fresh(m, 512);
    LAUNCH(m, "softmax", logits, x, loss);
    if (save) {
        m->logits = logits;
        m->x = x;
    } else {
        drop(m, logits), drop(m, x), drop(m, cos), drop(m, *h);
    }
    return loss;
}

/* The gradient of parameter `p`: new in the first step, else added to. */
static void
weight_gradient(struct maker *m, uint32_t p, struct place in, struct place out)
{
    bool add = m->micro > 0 || m->t->keep_grads;
    struct place gradient = fresh(m, m->sizes[p]);

    LAUNCH(m, "wgrad", in, out, gradient);
    if (!add) {
        m->grads[p] = gradient;
        return;
    }
    LAUNCH(m, "add_grad", m->grads[p], gradient);
    drop(m, gradient);
}

static void
layer_backward(struct maker *m, uint32_t index, struct place *g)
{
    struct layer *l = &m->layers[index];
    uint32_t p = 1 + index * 5;

    for (int w = 3; w >= 0; w--) {
        struct place next = fresh(m, 1 << 16);
        LAUNCH(m, "dgrad", *g, l->weight[w], next);
        weight_gradient(m, p + (uint32_t)w, l->saved[w == 3 ? 4 : w], *g);
        if (w == 1) {
            LAUNCH(m, "attention_backward", next, l->saved[1], l->saved[2],
                   l->saved[3]);
            drop(m, l->saved[2]);
            drop(m, l->saved[3]);
        }
        drop(m, *g);
        *g = next;
    }
    drop(m, l->saved[4]);
    drop(m, l->saved[1]);
    weight_gradient(m, p + 4, l->saved[0], *g);
    drop(m, l->saved[0]);
    drop(m, l->saved[6]);
}

static void
backward(struct maker *m, struct place h)
{
    struct place logits = m->logits, x = m->x;
    struct place g = fresh(m, 1 << 16);

    m->thread = 1;
    LAUNCH(m, "softmax_backward", logits, x);
    LAUNCH(m, "dgrad", logits, m->head, g);
    weight_gradient(m, m->param_count - 1, h, logits);
    drop(m, logits);
    drop(m, h);
    for (uint32_t l = m->t->layers; l-- > 0;)
        layer_backward(m, l, &g);
    weight_gradient(m, 0, x, g);
    drop(m, g);
    drop(m, x);
    drop(m, m->layers[0].saved[5]);
    m->thread = 0;
}

static void
multi(struct maker *m, const char *name, struct place **lists, uint32_t depth)
{
    for (uint32_t at = 0; at < m->param_count; at += CHUNK) {
        uint32_t n = m->param_count - at < CHUNK ? m->param_count - at : CHUNK;
        uint32_t stale = m->t->garbage ? (m->step * 7 + at) % 5 : 0;
        struct dcp_call *call = launch(m, name, NULL, depth * n + stale);
        for (uint32_t d = 0; d < depth; d++)
            for (uint32_t i = 0; i < n; i++)
                call->refs[d * n + i] =
                    (struct dcp_ref){lists[d][at + i].buffer,
                                     (d * CHUNK + i) * 8,
                                     lists[d][at + i].offset};
        for (uint32_t i = 0; i < stale; i++)
            call->refs[depth * n + i] = (struct dcp_ref){
                m->params[(m->step + i) % m->param_count].buffer,
                (depth * CHUNK + i) * 8, 0};
    }
}

#define MULTI(m, name, ...)                                                    \
    multi(m, name, (struct place *[]){__VA_ARGS__},                            \
          sizeof((struct place *[]){__VA_ARGS__}) / sizeof(struct place *))

static void
create_states(struct maker *m)
{
    bool second = m->t->optimizer <= TRAINING_ADAM_LOOP;

    if (m->t->optimizer >= TRAINING_SGD_PLAIN)
        return;
    for (uint32_t p = 0; p < m->param_count; p++) {
        set_pool(m, FIRST);
        m->first[p] = fresh(m, m->sizes[p]);
        fill(m, m->first[p], m->sizes[p]);
        m->facts->states++;
        if (!second)
            continue;
        set_pool(m, SECOND);
        m->second[p] = fresh(m, m->sizes[p]);
        fill(m, m->second[p], m->sizes[p]);
        m->facts->states++;
    }
    set_pool(m, REST);
}

static void
adam_foreach(struct maker *m)
{
    struct place *root = calloc(m->param_count, sizeof *root);

    MULTI(m, "mul_", m->params);
    MULTI(m, "lerp_", m->first, m->grads);
    MULTI(m, "mul_", m->second);
    MULTI(m, "addcmul_", m->second, m->grads, m->grads);
    for (uint32_t p = 0; p < m->param_count; p++)
        root[p] = fresh(m, m->sizes[p]);
    MULTI(m, "sqrt", m->second, root);
    MULTI(m, "div_", root);
    MULTI(m, "add_", root);
    MULTI(m, "addcdiv_", m->params, m->first, root);
    for (uint32_t p = 0; p < m->param_count; p++)
        drop(m, root[p]);
    free(root);
}

static void
adam_loop(struct maker *m)
{
    for (uint32_t p = 0; p < m->param_count; p++) {
        if (!m->t->fixed_memory)
            LAUNCH(m, "mul1_", m->params[p]);
        if (m->t->fixed_memory) {
            LAUNCH(m, "adam1", m->params[p], m->grads[p], m->first[p],
                   m->second[p]);
            continue;
        }
        LAUNCH(m, "lerp1_", m->first[p], m->grads[p]);
        LAUNCH(m, "addcmul1_", m->second[p], m->grads[p]);
        struct place root = fresh(m, m->sizes[p]);
        LAUNCH(m, "sqrt1", m->second[p], root);
        LAUNCH(m, "addcdiv1_", m->params[p], m->first[p], root);
        drop(m, root);
    }
}

static void
update(struct maker *m)
{
    if (m->t->clip) {
        struct place norm = fresh(m, 512);
        MULTI(m, "norm", m->grads);
        LAUNCH(m, "norm_total", norm);
        MULTI(m, "scale_", m->grads);
        drop(m, norm);
    }
    if (m->step == 0)
        create_states(m);
    switch (m->t->optimizer) {
    case TRAINING_ADAM_FOREACH:
        adam_foreach(m);
        break;
    case TRAINING_ADAM_FUSED:
        MULTI(m, "fused_adam", m->params, m->grads, m->first, m->second);
        break;
    case TRAINING_ADAM_LOOP:
        adam_loop(m);
        break;
    case TRAINING_SGD_MOMENTUM:
        MULTI(m, "momentum_", m->first, m->grads);
        MULTI(m, "step_", m->params, m->first);
        break;
    case TRAINING_SGD_PLAIN:
        MULTI(m, "step_", m->params, m->grads);
        break;
    case TRAINING_NONE:
        break;
    }
}

static void
zero_grad(struct maker *m)
{
    set_pool(m, GRADS);
    for (uint32_t p = 0; p < m->param_count; p++) {
        if (!m->t->keep_grads) {
            drop(m, m->grads[p]);
            m->grads[p].buffer = NONE;
        } else if (m->step == 0) {
            m->grads[p] = fresh(m, m->sizes[p]);
        }
    }
    for (uint32_t p = 0; p < m->param_count && m->t->keep_grads; p++)
        fill(m, m->grads[p], m->sizes[p]);
    set_pool(m, REST);
}

static void
some_events(struct maker *m)
{
    struct dcp_call *call = add_call(m, DCP_CALL_RECORD, 0);

    call->event.event = 99;
    call = add_call(m, DCP_CALL_DEPEND, 0);
    call->event.event = 99;
}

static void
evaluate(struct maker *m)
{
    struct place h;

    m->length = 0;
    struct place loss = forward(m, &h, false);
    download(m, loss);
    drop(m, loss);
}

static void
step(struct maker *m)
{
    struct place h, loss = {NONE, 0};
    uint64_t used = m->pool_used[REST];

    m->length = m->t->lengths ? m->step % m->t->lengths : 0;
    zero_grad(m);
    for (m->micro = 0; m->micro < m->t->accum; m->micro++) {
        drop(m, loss);
        loss = forward(m, &h, true);
        backward(m, h);
        if (m->t->events && m->step % 2)
            some_events(m);
    }
    if (m->t->wait_early)
        download(m, loss);
    update(m);
    m->facts->step_ends[m->step] = m->log->call_count;
    if (!m->t->wait_early)
        download(m, loss);
    if (!m->t->losses)
        drop(m, loss);
    m->step++;
    if (m->t->eval_every && m->step % m->t->eval_every == 0)
        evaluate(m);
    m->pool_used[REST] = used;
}

struct dcp_log *
training_log(const struct training *training, struct training_facts *facts)
{
    struct maker *m = calloc(1, sizeof *m);
    struct dcp_log *log = calloc(1, sizeof *log);

    *facts = (struct training_facts){0};
    facts->step_ends = calloc(training->steps + 1, sizeof *facts->step_ends);
    m->t = training;
    m->log = log;
    m->facts = facts;
    build(m);
    facts->params = facts->grads = m->param_count;
    while (m->step < training->steps) {
        if (training->optimizer == TRAINING_NONE) {
            evaluate(m);
            facts->step_ends[m->step++] = log->call_count;
        } else {
            step(m);
        }
    }
    if (training->tail_layers) {
        struct place h = fresh(m, 1 << 16);
        for (uint32_t l = 0; l < training->tail_layers; l++)
            layer_forward(m, &m->layers[l % training->layers], &h, true);
    }
    free(m->layers), free(m->params), free(m->grads), free(m->first);
    free(m->second), free(m->sizes), free(m);
    return log;
}

void
training_free(struct dcp_log *log, struct training_facts *facts)
{
    /* Kernels are found through the calls; each is freed once, with its
     * first. */
    void *seen[KERNELS + 1] = {0};

    for (uint32_t i = 0; i < log->call_count; i++) {
        struct dcp_call *call = &log->calls[i];
        free(call->refs);
        if (call->op == DCP_CALL_LAUNCH)
            seen[call->launch.kernel->id] = (void *)call->launch.kernel;
    }
    for (int i = 0; i <= KERNELS; i++) {
        if (!seen[i])
            continue;
        free((char *)((struct dcp_kernel *)seen[i])->name);
        free(seen[i]);
    }
    free(log->calls);
    free(log->buffers);
    free(log);
    free(facts->step_ends);
}

/* By name: accesses of the slots in order; the last goes for all further. */
static const struct {
    const char *name, *access;
} accesses[] = {
    {"rms", "rrw"},         {"bn_train", "brbb"},
    {"bn_eval", "brrr"},    {"gemm_*", "rrw"},
    {"splitk_reduce", "b"}, {"rope", "br"},
    {"attention", "rww"},   {"attention_eval", "rww"},
    {"add", "br"},          {"silu", "rw"},
    {"embedding", "rrw"},   {"rotary", "rw"},
    {"softmax", "rrw"},     {"softmax_backward", "br"},
    {"dgrad", "rrw"},       {"wgrad", "rrw"},
    {"add_grad", "br"},     {"attention_backward", "brrr"},
};

void
training_access(const struct dcp_log *log, struct dcp_access_table *table)
{
    for (uint32_t i = 0; i < log->call_count; i++) {
        const struct dcp_call *call = &log->calls[i];
        const char *found = NULL;
        if (call->op != DCP_CALL_LAUNCH)
            continue;
        for (size_t a = 0; a < sizeof accesses / sizeof *accesses; a++)
            if (!fnmatch(accesses[a].name, call->launch.kernel->name, 0))
                found = accesses[a].access;
        for (uint32_t r = 0; found && r < call->ref_count; r++) {
            char c = found[r < strlen(found) ? r : strlen(found) - 1];
            dcp_access_set(table, call->launch.kernel->id, call->refs[r].slot,
                           c == 'r'   ? DCP_READ
                           : c == 'w' ? DCP_WRITE
                                      : DCP_READ | DCP_WRITE);
        }
    }
}
