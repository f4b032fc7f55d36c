/* SPDX-License-Identifier: Apache-2.0 */
/* Children. --mode after: forked in the middle of training, without any CUDA;
 * exec: they run another program; loader: they draw the batches that the
 * parent trains on; before: a parent that never uses CUDA forks children that
 * train. */
#include "tests/programs/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int steps = 16, children = 2;
static const char *mode = "after";
static const struct rt_option options[] = {
    {"steps", RT_INT, &steps, "steps of the optimizer"},
    {"mode", RT_TEXT, &mode, "after, exec, loader, before"},
    {"children", RT_INT, &children, "how many, with --mode before and loader"},
    {NULL, RT_FLAG, NULL, NULL},
};

static struct pupil pupil;

static void
wait_for(pid_t child)
{
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child)
        rt_end(4);
    if (WIFEXITED(status))
        rt_print("child exits with %d\n", WEXITSTATUS(status));
    else
        rt_print("child dies of %d\n", WTERMSIG(status));
}

static void
fork_idle(void)
{
    pid_t child = fork();
    if (child == 0) {
        char *memory = malloc(1 << 20);
        if (memory == NULL)
            _exit(1);
        memset(memory, 1, 1 << 20);
        free(memory);
        rt_print("in the child\n");
        /* leaves by exit, as a loader's worker does */
        exit(7);
    }
    wait_for(child);
}

static void
fork_exec(void)
{
    pid_t child = fork();
    if (child == 0) {
        execl("/bin/sh", "sh", "-c", "echo another program", (char *)NULL);
        _exit(1);
    }
    wait_for(child);
}

/* ---- workers that load data -------------------------------------------- */

enum { BATCH = 2, LENGTH = 16, COUNT = BATCH * LENGTH, MOST = 8 };

static pid_t worker[MOST];
static int worker_pipe[MOST];

static void
worker_main(int number, int out)
{
    struct data data;
    int numbers[2 * COUNT];
    data_open(&data, NULL, 100 + (uint64_t)number);
    for (int step = number; step < steps; step += children) {
        data_draw(&data, numbers, numbers + COUNT, BATCH, LENGTH);
        if (write(out, numbers, sizeof numbers) != sizeof numbers)
            exit(1);
    }
    data_free(&data);
    exit(0);
}

static void
start_worker(int number)
{
    int ends[2];
    if (pipe(ends) != 0)
        rt_end(4);
    worker[number] = fork();
    if (worker[number] == 0) {
        close(ends[0]);
        worker_main(number, ends[1]);
    }
    close(ends[1]);
    worker_pipe[number] = ends[0];
}

static void
loaded_step(int step)
{
    int numbers[2 * COUNT];
    struct tape tape;
    struct batch batch = {rt_alloc(COUNT * sizeof(int)),
                          rt_alloc(COUNT * sizeof(int)), BATCH, LENGTH};
    if (read(worker_pipe[step % children], numbers, sizeof numbers) !=
        sizeof numbers)
        rt_end(4);
    rt_upload(batch.tokens, numbers, COUNT * sizeof(int));
    rt_upload(batch.targets, numbers + COUNT, COUNT * sizeof(int));
    memset(numbers, 0xff, sizeof numbers);
    model_zero_grad(&pupil.model);
    float *loss = model_forward(&pupil.model, &batch, 1.0f, &tape);
    model_backward(&pupil.model, &batch, 1.0f, &tape);
    batch_free(&batch);
    optim_step(&pupil.model, &pupil.optim);
    loss_print(step, loss);
}

static void
train_loaded(void)
{
    if (children < 1 || children > MOST)
        children = 2;
    pupil_open(&pupil);
    loss_print(-1, pupil_step(&pupil));
    for (int i = 0; i < children; i++)
        start_worker(i);
    for (int step = 0; step < steps; step++)
        loaded_step(step);
    for (int i = 0; i < children; i++) {
        close(worker_pipe[i]);
        wait_for(worker[i]);
    }
    pupil_free(&pupil);
    rt_end(0);
}

/* ---- the others -------------------------------------------------------- */

static void
train(int many)
{
    pupil_open(&pupil);
    for (int step = 0; step < many; step++) {
        loss_print(step, pupil_step(&pupil));
        if (strcmp(mode, "before") != 0 && step % 6 == 5)
            (strcmp(mode, "exec") == 0 ? fork_exec : fork_idle)();
    }
    pupil_free(&pupil);
    rt_end(0);
}

int
main(int argc, char **argv)
{
    rt_options(argc, argv, options);
    if (strcmp(mode, "before") != 0) {
        rt_connect();
        if (strcmp(mode, "loader") == 0)
            train_loaded();
        train(steps);
    }
    for (int i = 0; i < children; i++) {
        pid_t child = fork();
        if (child == 0) {
            rt_connect();
            train(steps / 2 + i);
        }
        wait_for(child);
    }
    rt_print("parent ends\n");
    return 0;
}
