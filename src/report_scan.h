/* SPDX-License-Identifier: Apache-2.0 */
/* The first reading of a trace: every record but those of blocks goes into
 * the model of its rank. */
#ifndef DCP_SRC_REPORT_SCAN_H
#define DCP_SRC_REPORT_SCAN_H

struct dcp_model_rank;

/* Reads all of rank->reader. Dies when memory is out. */
void dcp_model_scan(struct dcp_model_rank *rank);

/* Frees what it made. */
void dcp_model_scan_release(struct dcp_model_rank *rank);

#endif
