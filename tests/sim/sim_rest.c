/* SPDX-License-Identifier: Apache-2.0 */
/* The entries that the simulator does not model: they are exported, counted,
 * can be made to fail, and answer CUDA_ERROR_NOT_SUPPORTED. Each entry has
 * such a body here, a weak one, which the model's own takes the place of. This
 * file knows no prototypes; a caller's arguments are not looked at. */
#define SIM_NOT_SUPPORTED 801

int sim_rest_enter(const char *name, void **site);

#define SIM_ENTRY(base, version, own, symbol)                                  \
    __attribute__((weak)) int symbol(void);                                    \
    int symbol(void)                                                           \
    {                                                                          \
        static void *site;                                                     \
        int result = sim_rest_enter(#symbol, &site);                           \
        return result ? result : SIM_NOT_SUPPORTED;                            \
    }
#include "sim_entry.def"
