/* SPDX-License-Identifier: Apache-2.0 */
/* A byte-level transformer, its gradients and its optimizers, written as a
 * framework would run them: a launch or a few an operation, a block of memory a
 * tensor, each freed as soon as it is used up. */
#ifndef DCP_PROGRAMS_MODEL_H
#define DCP_PROGRAMS_MODEL_H

#include "tests/programs/rt.h"

#define VOCABULARY 256
#define MAX_LAYERS 32

struct weight {
    int count;
    float *at, *grad;
    float *first, *second; /* the optimizer's state */
};

/* The weights of a layer, in this order. */
enum layer_weight {
    NORM1, NORM1_BIAS, QKV, QKV_BIAS, OUT, OUT_BIAS,
    NORM2, NORM2_BIAS, UP, UP_BIAS, DOWN, DOWN_BIAS,
    LAYER_WEIGHTS
};

struct model {
    int layers, hidden, heads, length; /* length: the longest sequence */
    int flat;                          /* one block for all weights */
    int rounded;                       /* linear layers see bf16 weights */
    float dropout;
    uint64_t seed, offset;             /* of dropout */
    struct weight token, place, last_norm, head;
    struct weight layer[MAX_LAYERS][LAYER_WEIGHTS];
    struct weight *weights[4 + MAX_LAYERS * LAYER_WEIGHTS];
    int weight_count;
    int total; /* elements of all weights */
    int steps; /* of the optimizer */
    float *flat_at, *flat_grad, *flat_first, *flat_second;
};

struct batch {
    int *tokens, *targets; /* on the device */
    int count, length;
};

/* What the backward pass needs of a layer. */
struct saved_layer {
    float *x, *stats1, *normal1, *qkv, *chance, *context;
    float *middle, *stats2, *normal2, *up, *active;
    uint64_t drop1, drop2; /* offsets of the generator */
};

struct tape {
    struct saved_layer layer[MAX_LAYERS];
    float *x, *stats, *normal, *chance;
};

/* Draws the weights and copies them to the device. */
void model_open(struct model *model);
void model_free(struct model *model);
/* Prints "params <hash>", and writes weights and states to `file` when that is
 * not NULL or "". */
void model_print(struct model *model, const char *file);

/* Returns the loss (one float on the device, to be freed by rt_free); `tape` is
 * what the backward pass will want; NULL for evaluation. `scale` multiplies the
 * loss and, given again, its gradients. */
float *model_forward(struct model *model, const struct batch *batch,
                     float scale, struct tape *tape);
void model_backward(struct model *model, const struct batch *batch,
                    float scale, struct tape *tape);
void model_zero_grad(struct model *model);

/* ---- optim.c ----------------------------------------------------------- */

struct optim {
    const char *kind; /* adam, adam_multi, sgd, lamb */
    float rate, clip;
    int host_clip; /* the host reads the norm and decides */
    int steps;
};

/* Clips the gradients and takes a step. */
void optim_step(struct model *model, struct optim *optim);

/* ---- data.c ------------------------------------------------------------ */

struct data {
    unsigned char *text;
    size_t bytes;
    uint64_t state; /* of the generator that draws the batches */
};

/* Reads a text; NULL or "": the licence that the system carries, or else the
 * one beside the sources, or a made-up text. */
void data_open(struct data *data, const char *path, uint64_t seed);
void data_free(struct data *data);
/* Draws count * length tokens and the tokens after them into host buffers. */
void data_draw(struct data *data, int *tokens, int *targets, int count,
               int length);
/* Draws a batch, copies it to the device from buffers that are gone when it
 * returns. */
struct batch data_batch(struct data *data, int count, int length);
void batch_free(struct batch *batch);

/* ---- learn.c ----------------------------------------------------------- */

/* One model, one optimizer and one text, for programs whose point is another
 * one than training. */
struct pupil {
    struct model model;
    struct optim optim;
    struct data data;
};

/* A small model and Adam. */
void pupil_open(struct pupil *pupil);
void pupil_free(struct pupil *pupil);
/* One whole step; returns the loss on the device. */
float *pupil_step(struct pupil *pupil);
/* Waits for the loss, prints "step <step> loss <loss>" and frees it. */
void loss_print(int step, float *loss);

#endif
