/* SPDX-License-Identifier: Apache-2.0 */
/* Made-up logs in the shape of a PyTorch training program (one allocation a
 * tensor), for tests of what analyses them. */
#ifndef DCP_TESTS_TRAINING_LOG_H
#define DCP_TESTS_TRAINING_LOG_H

#include "capture/access.h"
#include "capture/call.h"

enum training_optimizer {
    TRAINING_ADAM_FOREACH, /* several multi-tensor launches, temporaries */
    TRAINING_ADAM_FUSED,   /* one launch a chunk of tensors */
    TRAINING_ADAM_LOOP,    /* some launches a tensor */
    TRAINING_SGD_MOMENTUM, /* multi-tensor */
    TRAINING_SGD_PLAIN,
    TRAINING_NONE,         /* inference */
};

struct training {
    uint32_t layers, steps, accum;
    enum training_optimizer optimizer;
    uint32_t lengths;     /* number of sequence lengths in rotation */
    uint32_t eval_every;  /* 0: never */
    uint32_t init_calls;  /* further calls before training */
    uint32_t tail_layers; /* layers of a further, unfinished step */
    bool wait_early;      /* loss is read before the update, not after */
    bool keep_grads;      /* gradients live on, zeroed in each step */
    bool stats;           /* batch-norm statistics in each layer */
    bool losses;          /* the losses of all steps are kept */
    bool garbage;         /* stale pointers in multi-tensor launches */
    bool clip;            /* gradient norm */
    bool fixed_memory;    /* all blocks allocated once, in one piece */
    bool events;          /* every other step has some event calls */
};

/* What the log should be found to hold. */
struct training_facts {
    uint32_t *step_ends; /* by step: call index just after its update */
    uint32_t params, states, grads;
};

/* From malloc; release with training_free. Never NULL. */
struct dcp_log *training_log(const struct training *training,
                             struct training_facts *facts);
void training_free(struct dcp_log *log, struct training_facts *facts);

/* What access discovery would find out about the kernels. */
void training_access(const struct dcp_log *log,
                     struct dcp_access_table *table);

#endif
