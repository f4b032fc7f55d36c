/* SPDX-License-Identifier: Apache-2.0 */
/* Makes launches: cost MODE COUNT. Run under an instruction counter with two
 * counts; the difference is what a call costs. MODE is watched (by a sink that
 * does nothing), idle (nobody listens) or lookup (dlsym of a name that is not
 * the driver's). */
#include "config.h"

#include "tests/doors/door.h"

#include <cuda.h>

int
main(int argc, char **argv)
{
    CHECK(argc == 3);
    long count = atol(argv[2]);

    CHECK(cuInit(0) == CUDA_SUCCESS);
    if (spy()) {
        void (*listen)(enum spy_ear);

        *(void **)&listen = dlsym(RTLD_DEFAULT, "spy_listen");
        listen(strcmp(argv[1], "idle") == 0 ? SPY_DEAF : SPY_BARE);
    }
    if (strcmp(argv[1], "lookup") == 0)
        for (long i = 0; i < count; i++)
            dlsym(RTLD_DEFAULT, "puts");
    else
        for (long i = 0; i < count; i++)
            cuLaunchKernel(NULL, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
    return 0;
}
