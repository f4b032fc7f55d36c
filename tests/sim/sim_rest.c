/* SPDX-License-Identifier: Apache-2.0 */
/* The entries that the simulator does not model: they are exported, counted,
 * can be made to fail, and answer CUDA_ERROR_NOT_SUPPORTED. This file knows
 * no prototypes; a caller's arguments are not looked at. */
#include <stddef.h>

#define SIM_NOT_SUPPORTED 801

struct sim_site;
int sim_rest_enter(const char *name, void **site);

#define SIM_ENTRY(kind, base, version, own, symbol) SIM_##kind(symbol)
#define SIM_MODEL(symbol)
#define SIM_REST(symbol)                                                       \
    __attribute__((visibility("default"))) int symbol(void);                   \
    int symbol(void)                                                           \
    {                                                                          \
        static void *site;                                                     \
        int result = sim_rest_enter(#symbol, &site);                           \
        return result ? result : SIM_NOT_SUPPORTED;                            \
    }
#include "sim_entry.def"
