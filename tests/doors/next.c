/* SPDX-License-Identifier: Apache-2.0 */
/* Linked to the driver, with relay.c preloaded before or after the library:
 * the call gets through, once. */
#include "config.h"

#include "tests/doors/door.h"

#include <cuda.h>

int
main(void)
{
    unsigned (*mallocs)(void), (*syncs)(void);

    *(void **)&mallocs = dlsym(RTLD_DEFAULT, "relay_mallocs");
    *(void **)&syncs = dlsym(RTLD_DEFAULT, "relay_syncs");
    CHECK(mallocs && syncs);
    CHECK(cuInit(0) == CUDA_SUCCESS);
    unsigned before = mallocs();
    void *volatile block = malloc(10);
    CHECK(block && mallocs() == before + 1);
    free(block);

    CHECK(cuCtxSynchronize() == CUDA_SUCCESS);
    CHECK(seen("cuCtxSynchronize") && reached("cuCtxSynchronize"));
    CHECK(driver()->calls == 2);
    printf("relayed %s\n", syncs() ? "yes" : "no");
    return 0;
}
