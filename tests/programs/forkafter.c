/* SPDX-License-Identifier: Apache-2.0 */
/* Children. --mode after: forked in the middle of training, without any CUDA;
 * exec: they run another program; before: a parent that never uses CUDA forks
 * children that train. */
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
    {"mode", RT_TEXT, &mode, "after, exec, before"},
    {"children", RT_INT, &children, "how many, with --mode before"},
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
