/* SPDX-License-Identifier: Apache-2.0 */
/* dcprel-report config: checks a configuration as the library would, and
 * prints what each key does; or prints what keys and variables there are. */
#include "config.h"

#include "src/dc_config.h"
#include "src/env.h"
#include "src/report.h"
#include "src/report_config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char help[] =
    "usage: dcprel-report config FILE\n"
    "Checks a configuration and prints what each of its keys does.\n"
    "\n"
    "       dcprel-report config --schema|--keys|--env\n"
    "  --schema   print the JSON Schema of configurations\n"
    "  --keys     print all keys as a table\n"
    "  --env      print the environment variables that are read\n"
    "\n"
    "Exit status: 0, 2 when the configuration is wrong; the error is printed\n"
    "on standard error as FILE:LINE: KEY: what is wrong.\n";

/* --- one file ------------------------------------------------------------ */

struct listing {
    char *text;
    size_t length;
    FILE *file;
    unsigned keys, acting;
};

/* A value on one line, cut where it is long. */
static void
put_value(FILE *file, const char *value, size_t bytes)
{
    enum { WIDTH = 60 };
    size_t put = 0;
    bool blank = false;

    for (size_t i = 0; i < bytes && put < WIDTH; i++) {
        bool space = (unsigned char)value[i] <= ' ';

        if (!space || !blank) {
            fputc(space ? ' ' : value[i], file);
            put++;
        }
        blank = space;
    }
    if (put == WIDTH)
        fputs("...", file);
}

static void
list_key(void *user, const struct dcp_config_found *found)
{
    struct listing *list = user;
    const struct dcp_config_row *row = &dcp_config_rows[found->key];
    enum dcp_config_state state = row->state;

    /* it was let pass, so it does not ask for what is refused */
    if (state == DCP_CONFIG_REFUSED)
        state = DCP_CONFIG_ACCEPTED;
    list->keys++;
    list->acting += state == DCP_CONFIG_ACTS;
    fprintf(list->file, "%5u  %s = ", found->line, found->path);
    put_value(list->file, found->value, found->value_bytes);
    fprintf(list->file, "\n       %s: %s\n",
            found->unset ? "not set" : dcp_config_state_text(state), row->help);
}

static int
check_file(const char *path)
{
    static struct dcp_config config;
    char error[1024];
    struct listing list = {0};

    list.file = open_memstream(&list.text, &list.length);
    if (!list.file)
        dcp_die("out of memory");
    enum dcp_status status = dcp_config_load_with(path, &config, error,
                                                  sizeof error, list_key,
                                                  &list);
    if (fclose(list.file) != 0)
        dcp_die("out of memory");
    if (status != DCP_OK)
        fprintf(stderr, "%s\n", error);
    else
        printf("%s: good; %u keys, of which %u act\n\n%s", path, list.keys,
               list.acting, list.text);
    free(list.text);
    return status == DCP_OK ? 0 : 2;
}

/* --- lists --------------------------------------------------------------- */

/* The default as it would be written in a file; "" for none. */
static const char *
default_text(const struct dcp_config_row *row, char *text, size_t room)
{
    text[0] = '\0';
    if (row->offset < 0)
        return text;
    switch ((enum dcp_config_kind)row->kind) {
    case DCP_CONFIG_BOOL:
        return row->otherwise != 0 ? "true" : "false";
    case DCP_CONFIG_EVERY:
        return "false";
    case DCP_CONFIG_TEXT:
        return "\"\"";
    case DCP_CONFIG_NAMES:
        return "[]";
    case DCP_CONFIG_WORD: {
        const char *word = row->words;

        for (int i = 0; i < (int)row->otherwise; i++)
            word += strcspn(word, "|") + 1;
        snprintf(text, room, "\"%.*s\"", (int)strcspn(word, "|"), word);
        return text;
    }
    default:
        snprintf(text, room, "%.15g", row->otherwise);
        return text;
    }
}

static void
put_cell(const char *text)
{
    for (; *text; text++)
        if (*text == '|')
            fputs("\\|", stdout);
        else
            putchar(*text);
}

/* As README.md has it; a test compares the two. */
static void
print_keys(void)
{
    char text[64];

    puts("| key | default | | what it does |\n|---|---|---|---|");
    for (int i = 0; i < DCP_CONFIG_KEYS; i++) {
        const struct dcp_config_row *row = &dcp_config_rows[i];

        printf("| `%s` | ", row->path);
        put_cell(default_text(row, text, sizeof text));
        printf(" | %s | ", dcp_config_state_text(row->state));
        put_cell(row->help);
        if (row->offset >= 0 && row->words) {
            fputs(" (", stdout);
            put_cell(row->words);
            putchar(')');
        }
        puts(" |");
    }
}

static void
print_env(void)
{
    for (int i = 0; i < DCP_ENV_COUNT; i++)
        printf("%s=%s\n    %s\n", dcp_env_rows[i].name, dcp_env_rows[i].value,
               dcp_env_rows[i].help);
}

int
dcp_report_config(int argc, char **argv)
{
    if (argc != 2) {
        fputs(help, stderr);
        return 2;
    }
    if (!strcmp(argv[1], "--help"))
        fputs(help, stdout);
    else if (!strcmp(argv[1], "--schema"))
        dcp_config_schema(stdout);
    else if (!strcmp(argv[1], "--keys"))
        print_keys();
    else if (!strcmp(argv[1], "--env"))
        print_env();
    else if (!strncmp(argv[1], "--", 2)) {
        dcp_complain("config: unknown option %s", argv[1]);
        return 2;
    } else
        return check_file(argv[1]);
    return 0;
}
