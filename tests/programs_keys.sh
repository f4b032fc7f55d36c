#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The test programs without and with the library: the group "keys".
exec bash "$(dirname "$0")/run_programs.sh" keys
