/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels' parameters, written down once: kernels.cu defines the kernels
 * from them, rt.h the functions that launch them. */
#ifndef DCP_PROGRAMS_KERNELS_H
#define DCP_PROGRAMS_KERNELS_H

#include "tests/programs/kernel.h"

#include <stdint.h>

/* Several tensors for one launch of an optimizer. Only what is used is ever
 * written; the rest of the struct is whatever lay on the stack. */
#define LIST_DEPTH 4
#define LIST_TENSORS 36
#define LIST_BLOCKS 320
#define LIST_CHUNK 256 /* elements a block works on */

struct tensor_list {
    float *address[LIST_DEPTH][LIST_TENSORS];
    int64_t numel[LIST_TENSORS];
    unsigned char block_tensor[LIST_BLOCKS];
    int block_chunk[LIST_BLOCKS];
    int first_tensor;
};

/* The state of a counter-based generator as frameworks pass it: 8 + 8 + 4 + 1
 * bytes and 3 bytes of padding that nobody writes. */
struct generator {
    uint64_t seed;
    union {
        uint64_t value;
        int64_t *pointer;
    } offset;
    uint32_t inside;
    unsigned char captured;
};

struct adam {
    float rate, beta1, beta2, epsilon, decay, correct1, correct2;
};

struct sixty_four {
    uint64_t word[8];
};

#define KERNELS(K)                                                             \
    K(empty)                                                                   \
    K(tiny)                                                                    \
    K(fill)                                                                    \
    K(copy)                                                                    \
    K(add)                                                                     \
    K(axpy)                                                                    \
    K(scale)                                                                   \
    K(gain)                                                                    \
    K(cast_to_bf16)                                                            \
    K(cast_from_bf16)                                                          \
    K(gather_list)                                                             \
    K(poke)                                                                    \
    K(embed)                                                                   \
    K(embed_token_grad)                                                        \
    K(embed_place_grad)                                                        \
    K(layernorm)                                                               \
    K(layernorm_grad)                                                          \
    K(layernorm_weight_grad)                                                   \
    K(rmsnorm)                                                                 \
    K(rmsnorm_grad)                                                            \
    K(rmsnorm_weight_grad)                                                     \
    K(matmul)                                                                  \
    K(column_sum)                                                              \
    K(gelu)                                                                    \
    K(gelu_grad)                                                               \
    K(attention)                                                               \
    K(attention_grad_query)                                                    \
    K(attention_grad_key)                                                      \
    K(cross_entropy)                                                           \
    K(cross_entropy_grad)                                                      \
    K(mean)                                                                    \
    K(dropout)                                                                 \
    K(square_sum)                                                              \
    K(square_sum_list)                                                         \
    K(norm_of)                                                                 \
    K(clip)                                                                    \
    K(adamw)                                                                   \
    K(adamw_list)                                                              \
    K(sgd)                                                                     \
    K(lamb_direction)                                                          \
    K(lamb_apply)

#define ARGS_empty
#define ARGS_tiny (int *, out), (struct sixty_four, words)
#define ARGS_fill (float *, y), (float, value), (int, n)
#define ARGS_copy (float *, y), (const float *, x), (int, n)
#define ARGS_add (float *, y), (const float *, a), (const float *, b), (int, n)
#define ARGS_axpy (float *, y), (float, a), (const float *, x), (int, n)
#define ARGS_scale (float *, y), (float, a), (int, n)
#define ARGS_gain (float *, y), (int, n)
#define ARGS_cast_to_bf16 (uint16_t *, y), (const float *, x), (int, n)
#define ARGS_cast_from_bf16 (float *, y), (const uint16_t *, x), (int, n)
#define ARGS_gather_list                                                       \
    (float *, y), (const float *const *, list), (int, count), (int, n)
#define ARGS_poke (volatile int *, flag), (int, value)
#define ARGS_embed                                                             \
    (float *, y), (const int *, tokens), (const float *, token_weight),        \
        (const float *, place_weight), (int, rows), (int, length), (int, width)
#define ARGS_embed_token_grad                                                  \
    (float *, grad), (const float *, dy), (const int *, tokens), (int, rows),  \
        (int, width), (int, vocabulary), (int, keep)
#define ARGS_embed_place_grad                                                  \
    (float *, grad), (const float *, dy), (int, rows), (int, length),          \
        (int, width), (int, places), (int, keep)
#define ARGS_layernorm                                                         \
    (float *, y), (float *, stats), (const float *, x),                        \
        (const float *, weight), (const float *, bias), (int, width)
#define ARGS_layernorm_grad                                                    \
    (float *, dx), (const float *, dy), (const float *, x),                    \
        (const float *, stats), (const float *, weight), (int, width)
#define ARGS_layernorm_weight_grad                                             \
    (float *, dweight), (float *, dbias), (const float *, dy),                 \
        (const float *, x), (const float *, stats), (int, rows),               \
        (int, width), (int, keep)
#define ARGS_rmsnorm                                                           \
    (float *, y), (float *, stats), (const float *, x),                        \
        (const float *, weight), (int, width)
#define ARGS_rmsnorm_grad                                                      \
    (float *, dx), (const float *, dy), (const float *, x),                    \
        (const float *, stats), (const float *, weight), (int, width)
#define ARGS_rmsnorm_weight_grad                                               \
    (float *, dweight), (const float *, dy), (const float *, x),               \
        (const float *, stats), (int, rows), (int, width), (int, keep)
/* y[i, j] = keep * y[i, j] + bias[j] + sum over l of
 * a[i * a_row + l * a_step] * b[j * b_row + l * b_step] */
#define ARGS_matmul                                                            \
    (float *, y), (const float *, a), (const float *, b),                      \
        (const float *, bias), (int, rows), (int, columns), (int, inner),      \
        (int, a_row), (int, a_step), (int, b_row), (int, b_step), (int, keep)
#define ARGS_column_sum                                                        \
    (float *, y), (const float *, x), (int, rows), (int, width), (int, keep)
#define ARGS_gelu (float *, y), (const float *, x), (int, n)
#define ARGS_gelu_grad                                                         \
    (float *, dx), (const float *, dy), (const float *, x), (int, n)
/* One row a batch, head and place; qkv is [batch, length, 3, heads, size]. */
#define ARGS_attention                                                         \
    (float *, y), (float *, chance), (const float *, qkv), (int, length),      \
        (int, heads), (int, size)
#define ARGS_attention_grad_query                                              \
    (float *, dqkv), (float *, dscore), (const float *, dy),                   \
        (const float *, chance), (const float *, qkv), (int, length),          \
        (int, heads), (int, size)
#define ARGS_attention_grad_key                                                \
    (float *, dqkv), (const float *, dy), (const float *, chance),             \
        (const float *, dscore), (const float *, qkv), (int, length),          \
        (int, heads), (int, size)
#define ARGS_cross_entropy                                                     \
    (float *, loss), (float *, chance), (const float *, logits),               \
        (const int *, targets), (int, width)
#define ARGS_cross_entropy_grad                                                \
    (float *, dlogits), (const float *, chance), (const int *, targets),       \
        (float, scale), (int, rows), (int, width)
#define ARGS_mean (float *, y), (const float *, x), (float, scale), (int, n)
#define ARGS_dropout                                                           \
    (float *, y), (const float *, x), (float, chance),                         \
        (struct generator, random), (int, n)
#define ARGS_square_sum                                                        \
    (float *, parts), (const float *, x), (int, first), (int, n)
#define ARGS_square_sum_list                                                   \
    (float *, parts), (int, first), (struct tensor_list, list)
#define ARGS_norm_of                                                           \
    (float *, result), (const float *, parts), (int, count), (float, limit)
#define ARGS_clip (float *, y), (const float *, norm), (int, n)
#define ARGS_adamw                                                             \
    (float *, weight), (const float *, grad), (float *, first),                \
        (float *, second), (int, n), (float, rate), (float, beta1),            \
        (float, beta2), (float, epsilon), (float, decay), (float, correct1),   \
        (float, correct2)
#define ARGS_adamw_list (struct tensor_list, list), (struct adam, adam)
#define ARGS_sgd                                                               \
    (float *, weight), (const float *, grad), (float *, speed), (int, n),      \
        (float, rate), (float, momentum)
#define ARGS_lamb_direction                                                    \
    (float *, direction), (const float *, weight), (const float *, grad),      \
        (float *, first), (float *, second), (int, n), (struct adam, adam)
#define ARGS_lamb_apply                                                        \
    (float *, weight), (const float *, direction),                             \
        (const float *, weight_norm), (const float *, direction_norm),         \
        (int, n), (float, rate)

/* The parameters as the driver lays them out. */
#define DECLARE_ARGS(name) DECLARE_ARGS_(name, ARGS_##name)
#define DECLARE_ARGS_(name, ...) DECLARE_ARGS__(name, __VA_ARGS__)
#define DECLARE_ARGS__(name, ...)                                              \
    struct args_##name {                                                       \
        MAP(AS_FIELD, NOTHING, name, ##__VA_ARGS__)                            \
    };
KERNELS(DECLARE_ARGS)

#endif
