/* SPDX-License-Identifier: Apache-2.0 */
/* Keys that contradict each other. */
#include "config.h"

#include "src/dc_config_private.h"

struct rule {
    enum dcp_config_key a, b;
    const char *why;
    bool (*broken)(const struct dcp_config *);
};

static bool
bf16_and_fp16(const struct dcp_config *c)
{
    return c->bf16 && c->fp16;
}

static bool
parameters_and_states(const struct dcp_config *c)
{
    return c->offload_parameters && c->offload_opt_states;
}

static bool
activation_and_parameters(const struct dcp_config *c)
{
    return c->offload_activation && c->offload_parameters;
}

static bool
activation_and_states(const struct dcp_config *c)
{
    return c->offload_activation && c->offload_opt_states;
}

static bool
states_twice(const struct dcp_config *c)
{
    return c->offload_opt_states && c->offload_optimizer;
}

static bool
symmetric_not_p2p(const struct dcp_config *c)
{
    return c->symmetric_memory && c->comm != DCP_COMM_AUTO &&
           c->comm != DCP_COMM_P2P;
}

static bool
batch_is_no_multiple(const struct dcp_config *c)
{
    int64_t micro = c->train_micro_batch_size;

    /* all three are at most 10^12, 10^12 and 10^6: no overflow */
    return c->train_batch_size && micro &&
           c->lines[DCP_KEY_gradient_accumulation_steps] &&
           c->train_batch_size % (micro * c->gradient_accumulation_steps) != 0;
}

static const struct rule rules[] = {
    {DCP_KEY_fp16, DCP_KEY_bf16, "one of the two must be false", bf16_and_fp16},
    {DCP_KEY_offload_parameters, DCP_KEY_offload_opt_states,
     "one of the two must be false", parameters_and_states},
    {DCP_KEY_offload_activation, DCP_KEY_offload_parameters,
     "one of the two must be false", activation_and_parameters},
    {DCP_KEY_offload_activation, DCP_KEY_offload_opt_states,
     "one of the two must be false", activation_and_states},
    {DCP_KEY_offload_opt_states, DCP_KEY_offload_optimizer,
     "optimizer states can be offloaded in one way only", states_twice},
    {DCP_KEY_symmetric_memory, DCP_KEY_comm,
     "symmetric memory needs \"p2p\" or \"auto\"", symmetric_not_p2p},
    {DCP_KEY_train_batch_size, DCP_KEY_train_micro_batch_size,
     "the batch is not a multiple of micro-batch times accumulation steps",
     batch_is_no_multiple},
};

void
dcp_config_check(struct dcp_config_reader *reader)
{
    const uint32_t *lines = reader->out->lines;

    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        enum dcp_config_key a = rules[i].a, b = rules[i].b;

        if (!rules[i].broken(reader->out))
            continue;
        /* the message stands at the later of the two */
        if (lines[a] < lines[b]) {
            a = rules[i].b;
            b = rules[i].a;
        }
        dcp_config_fault(reader, DCP_INVALID, lines[a],
                         dcp_config_rows[a].path,
                         "conflicts with %s (line %u): %s",
                         dcp_config_rows[b].path, (unsigned)lines[b],
                         rules[i].why);
        return;
    }
}
