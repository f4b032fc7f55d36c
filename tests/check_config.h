/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DCP_TESTS_CHECK_CONFIG_H
#define DCP_TESTS_CHECK_CONFIG_H

#include <check.h>

Suite *config_suite(void);

#endif
