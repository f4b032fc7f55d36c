/* SPDX-License-Identifier: Apache-2.0 */
/* dcprel-report: the command line. */
#include "config.h"

#include "src/report.h"
#include "src/report_model.h"
#include "src/report_out.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum command {
    SUMMARY = 1, MEMORY = 2, OPS = 4, IR = 8, DIFF = 16, CONFIG = 32,
    VIEWS = SUMMARY | MEMORY | OPS, /* parts of one page */
    TRACES = VIEWS | IR,
};

typedef void view(const struct dcp_model *, struct dcp_out *,
                  const struct dcp_report_options *);

static const struct {
    const char *name;
    enum command bit;
    const char *operands, *help;
    view *view;
} commands[] = {
    {"summary", SUMMARY, "[DIR | FILE]",
     "what ran, what share was replayed and why not all, step times",
     dcp_view_summary},
    {"memory", MEMORY, "[DIR | FILE]",
     "memory by role over time, the peak and who held it", dcp_view_memory},
    {"ops", OPS, "[DIR | FILE]",
     "kernels by count and GPU time, driver calls by host time",
     dcp_view_ops},
    {"ir", IR, "[DIR | FILE]", "the recorded graphs and what passes changed",
     dcp_view_ir},
    {"diff", DIFF, "A B", "two traces or two files of graph text", NULL},
    {"config", CONFIG, "FILE",
     "checks a configuration and explains it; see config --help", NULL},
};
enum { COMMANDS = sizeof commands / sizeof *commands };

/* --- options ------------------------------------------------------------- */

struct line {
    struct dcp_report_options options;
    const struct dcp_out_ops *format;
    const char *output;
    unsigned path_count;
};

static unsigned long
number(const char *option, const char *text, unsigned long most)
{
    char *end;

    errno = 0;
    unsigned long value = strtoul(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || errno || value > most)
        dcp_die("%s: %s is not a number from 0 to %lu", option, text, most);
    return value;
}

static void
set_format(struct line *line, const char *text)
{
    const char *names[8];
    size_t n = 0;

    for (; dcp_outs[n]; n++) {
        names[n] = dcp_outs[n]->name;
        if (!strcmp(names[n], text)) {
            line->format = dcp_outs[n];
            return;
        }
    }
    const char *near = dcp_nearest(text, names, n);
    dcp_die("no format %s%s%s%s; known: text, html, json, perfetto, csv",
            text, near ? " (nearest: " : "", near ? near : "",
            near ? ")" : "");
}

static void
set_output(struct line *line, const char *text)
{
    line->output = text;
}

static void
set_rank(struct line *line, const char *text)
{
    line->options.rank = (long)number("--rank", text, 1000000);
}

static void
set_top(struct line *line, const char *text)
{
    line->options.top = (unsigned)number("--top", text, 1000000000);
}

static void
set_table(struct line *line, const char *text)
{
    line->options.table = text;
}

static void
set_pass(struct line *line, const char *text)
{
    line->options.pass = text;
}

static void
set_graph(struct line *line, const char *text)
{
    line->options.graph = number("--graph", text, 1000000000);
}

static void
set_side(struct line *line, const char *text)
{
    (void)text;
    line->options.side_by_side = true;
}

/* `argument` NULL: the option stands alone. */
static const struct option {
    const char *name;
    char letter;
    const char *argument;
    int commands;
    const char *help;
    void (*set)(struct line *, const char *);
} options[] = {
    {"format", 'f', "NAME", TRACES | DIFF,
     "text, html, json, perfetto or csv (default: text)", set_format},
    {"output", 'o', "FILE", TRACES | DIFF, "write there, not to the terminal",
     set_output},
    {"rank", 'r', "N", TRACES | DIFF, "this rank only (default: all)",
     set_rank},
    {"top", 'n', "N", VIEWS, "rows of long tables, 0: all (default: 20)",
     set_top},
    {"table", 't', "KEY", VIEWS,
     "this table or chart only (its name: see csv)", set_table},
    {"pass", 'p', "NAME", IR,
     "the graph's text after this pass, \"lift\" or \"last\"", set_pass},
    {"graph", 'g', "N", IR | DIFF, "this graph only (default: all)",
     set_graph},
    {"side-by-side", 'y', NULL, IR | DIFF, "changes in two columns",
     set_side},
};
enum { OPTIONS = sizeof options / sizeof *options };

static const char *
command_name(int bit)
{
    for (int i = 0; i < COMMANDS; i++)
        if ((int)commands[i].bit == bit)
            return commands[i].name;
    return "?";
}

/* The option that `word` begins with: "--name", "--name=value", "-n". Dies
 * when there is none, or none for this command. */
static const struct option *
find_option(const char *word, int command)
{
    const char *names[OPTIONS];
    bool full = word[1] == '-';
    size_t length = full ? strcspn(word + 2, "=") : 1;

    for (int i = 0; i < OPTIONS; i++) {
        const struct option *o = &options[i];
        names[i] = o->name;
        if (full ? strlen(o->name) != length ||
                       strncmp(o->name, word + 2, length) != 0
                 : word[1] != o->letter || word[2])
            continue;
        if (!(o->commands & command))
            dcp_die("option --%s is not for %s", o->name,
                    command_name(command));
        return o;
    }
    char name[64];
    snprintf(name, sizeof name, "%.*s", (int)length, word + (full ? 2 : 1));
    const char *near = full ? dcp_nearest(name, names, OPTIONS) : NULL;
    dcp_die("no option %s%s%s%s; see dcprel-report --help", word,
            near ? " (nearest: --" : "", near ? near : "", near ? ")" : "");
}

/* --- help ---------------------------------------------------------------- */

static void
print_options(int mask)
{
    for (int i = 0; i < OPTIONS; i++) {
        char *left = dcp_xprintf("-%c, --%s %s", options[i].letter,
                                 options[i].name,
                                 options[i].argument ? options[i].argument
                                                     : "");
        if (options[i].commands & mask)
            printf("  %-24s %s\n", left, options[i].help);
        free(left);
    }
    printf("  %-24s %s\n", "-h, --help", "this text");
}

static void
print_help(void)
{
    puts("Usage: dcprel-report COMMAND [OPTION...] [FILE...]\n"
         "Shows what dcprel traced. DIR holds one trace a rank; without it, "
         "the current\ndirectory is read.\n\nCommands:");
    for (int i = 0; i < COMMANDS; i++)
        printf("  %-8s %-14s %s\n", commands[i].name, commands[i].operands,
               commands[i].help);
    puts("\nOptions:");
    print_options(~0);
    printf("  %-24s %s\n", "-V, --version", "the version");
    puts("\nAs html or perfetto, summary, memory and ops give one page with "
         "all three.\nExit code: 0, or 2 for bad input.");
}

static void
print_command_help(int index)
{
    printf("Usage: dcprel-report %s [OPTION...] %s\n%s\n\nOptions:\n",
           commands[index].name, commands[index].operands,
           commands[index].help);
    print_options(commands[index].bit);
}

/* --- running ------------------------------------------------------------- */

static void
parse(struct line *line, int command, int count, char **words)
{
    bool only_paths = false;

    for (int i = 0; i < count; i++) {
        const char *word = words[i];
        if (only_paths || word[0] != '-' || !word[1]) {
            if (line->path_count == (command == DIFF ? 2 : 1))
                dcp_die("%s: one operand too many", word);
            line->options.paths[line->path_count++] = word;
        } else if (!strcmp(word, "--")) {
            only_paths = true;
        } else {
            const struct option *option = find_option(word, command);
            const char *value = strchr(word, '=');
            if (option->argument && !value && ++i == count)
                dcp_die("option --%s needs %s", option->name,
                        option->argument);
            if (!option->argument && value)
                dcp_die("option --%s takes no value", option->name);
            option->set(line, value ? value + 1 : words[i]);
        }
    }
}

static bool
asks_for(const char *word, const char *full, const char *letter)
{
    return !strcmp(word, full) || !strcmp(word, letter);
}

static FILE *
open_output(const char *path)
{
    FILE *file = path ? fopen(path, "w") : stdout;

    if (!file)
        dcp_die("%s: %s", path, strerror(errno));
    return file;
}

static void
draw(struct line *line, int index, struct dcp_out *out)
{
    enum command command = commands[index].bit;
    struct dcp_model *model = NULL;

    if (command != DIFF)
        model = dcp_model_read(line->options.paths[0], line->options.rank);
    out->file = open_output(line->output);
    char *title = dcp_xprintf("dcprel %s: %s", commands[index].name,
                              line->options.paths[0]);
    dcp_out_begin(out, title);
    if (command == DIFF)
        dcp_view_diff(out, &line->options);
    else if (command & VIEWS && out->ops->whole_page)
        for (int i = 0; i < COMMANDS; i++) {
            if (commands[i].bit & VIEWS)
                commands[i].view(model, out, &line->options);
        }
    else
        commands[index].view(model, out, &line->options);
    dcp_out_end(out);
    free(title);
    dcp_model_destroy(model);
}

static int
run(int index, int count, char **words)
{
    enum command command = commands[index].bit;
    struct line line = {.options = {.rank = -1, .top = 20},
                        .format = &dcp_out_text};

    parse(&line, command, count, words);
    if (line.format == &dcp_out_perfetto && !(command & VIEWS))
        dcp_die("perfetto shows no %s", commands[index].name);
    if (command == DIFF && line.path_count < 2)
        dcp_die("diff needs two operands");
    if (line.path_count == 0)
        line.options.paths[0] = ".";
    struct dcp_out out = {.ops = line.format, .only = line.options.table};
    draw(&line, index, &out);
    if (fflush(out.file) | ferror(out.file) ||
        (line.output && fclose(out.file)))
        dcp_die("%s: %s", line.output ? line.output : "output",
                strerror(errno));
    return 0;
}

static int
unknown_command(const char *word)
{
    const char *names[COMMANDS];

    for (int i = 0; i < COMMANDS; i++)
        names[i] = commands[i].name;
    const char *near = dcp_nearest(word, names, COMMANDS);
    dcp_die("no command %s%s%s%s; see dcprel-report --help", word,
            near ? " (nearest: " : "", near ? near : "", near ? ")" : "");
}

int
main(int argc, char **argv)
{
    if (argc < 2) {
        dcp_complain("no command; see dcprel-report --help");
        return 2;
    }
    if (asks_for(argv[1], "--help", "-h") || !strcmp(argv[1], "help")) {
        print_help();
        return 0;
    }
    if (asks_for(argv[1], "--version", "-V")) {
        puts("dcprel-report " PACKAGE_VERSION);
        return 0;
    }
    for (int i = 0; i < COMMANDS; i++) {
        if (strcmp(argv[1], commands[i].name))
            continue;
        if (commands[i].bit == CONFIG)
            return dcp_report_config(argc - 1, argv + 1);
        if (argc > 2 && asks_for(argv[2], "--help", "-h")) {
            print_command_help(i);
            return 0;
        }
        return run(i, argc - 2, argv + 2);
    }
    return unknown_command(argv[1]);
}
