/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DCP_SRC_REPORT_CONFIG_H
#define DCP_SRC_REPORT_CONFIG_H

#include <stdio.h>

/* Prints the JSON Schema (draft 2020-12) of configurations, made from the rows
 * of dc_config.def. */
void dcp_config_schema(FILE *file);

#endif
