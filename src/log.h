/* SPDX-License-Identifier: Apache-2.0 */
/* One line a message to stderr, prefixed "dcprel[rank] ", by a single write(2)
 * from a buffer on the stack: no allocation, no stdio, no lock; safe in any
 * thread, in a fork child and in a signal handler. */
#ifndef DCP_SRC_LOG_H
#define DCP_SRC_LOG_H

enum dcp_log_level {
    DCP_LOG_ERROR,   /* something is wrong; always shown */
    DCP_LOG_WARN,    /* the user will want to know; always shown */
    DCP_LOG_INFO,    /* shown with DCPREL_LOG=info or the key dcprel.log */
    DCP_LOG_DEBUG,
};

/* The most talkative level that is printed; starts at DCP_LOG_WARN. */
extern enum dcp_log_level dcp_log_threshold;

/* Sets the rank shown in the prefix; a negative rank shows none. */
void dcp_log_set_rank(int rank);

/* Sets the threshold by name (error, warn, info, debug). Returns 0, or -1 for
 * an unknown name, which changes nothing. */
int dcp_log_set_level(const char *name);

/* Writes one line. A message longer than 2,000 bytes is cut and ends in
 * "...". Newlines inside are replaced by blanks. Keeps errno. */
void dcp_log_write(enum dcp_log_level level, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* One listener for every line that is written (without prefix and newline);
 * NULL, the default: none. It runs where the line is logged, so it may take no
 * lock that is held there, and must not log. */
void dcp_log_listen(void (*listener)(enum dcp_log_level level,
                                     const char *line, unsigned bytes));

#define dcp_log(level, ...)                                                    \
    do {                                                                       \
        if ((level) <= dcp_log_threshold)                                      \
            dcp_log_write(level, __VA_ARGS__);                                 \
    } while (0)
#define dcp_error(...) dcp_log(DCP_LOG_ERROR, __VA_ARGS__)
#define dcp_warn(...) dcp_log(DCP_LOG_WARN, __VA_ARGS__)
#define dcp_info(...) dcp_log(DCP_LOG_INFO, __VA_ARGS__)
#define dcp_debug(...) dcp_log(DCP_LOG_DEBUG, __VA_ARGS__)

#endif
