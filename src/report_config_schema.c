/* SPDX-License-Identifier: Apache-2.0 */
/* The rows' paths form a tree, which is printed depth first. Rows of one
 * object need not stand together: each level picks its own out of all rows. */
#include "config.h"

#include "src/report_config.h"

#include "src/dc_config.h"

#include <stdbool.h>
#include <string.h>

static void
put_string(FILE *file, const char *text, size_t length)
{
    fputc('"', file);
    for (size_t i = 0; i < length; i++) {
        if (text[i] == '"' || text[i] == '\\')
            fputc('\\', file);
        fputc(text[i], file);
    }
    fputc('"', file);
}

static void
put_words(FILE *file, const struct dcp_config_row *row)
{
    const char *word = row->words;

    fputs("\"enum\": [", file);
    for (;;) {
        size_t length = strcspn(word, "|");

        put_string(file, word, length);
        if (word[length] == '\0')
            break;
        word += length + 1;
        fputs(", ", file);
    }
    fputc(']', file);
}

static void
put_range(FILE *file, const struct dcp_config_row *row)
{
    if (row->state == DCP_CONFIG_REFUSED)
        fprintf(file, ", \"exclusiveMaximum\": %.15g", row->least);
    else
        fprintf(file, ", \"minimum\": %.15g, \"maximum\": %.15g", row->least,
                row->most);
}

static void
put_type(FILE *file, const struct dcp_config_row *row)
{
    switch ((enum dcp_config_kind)row->kind) {
    case DCP_CONFIG_BOOL:
        fputs(row->state == DCP_CONFIG_REFUSED ? "\"const\": false"
                                               : "\"type\": \"boolean\"", file);
        break;
    case DCP_CONFIG_INT:
        fputs("\"type\": \"integer\"", file);
        put_range(file, row);
        break;
    case DCP_CONFIG_FLOAT:
    case DCP_CONFIG_NUMBER:
        fputs("\"type\": \"number\"", file);
        put_range(file, row);
        break;
    case DCP_CONFIG_BYTES:
    case DCP_CONFIG_BUDGET:
        fprintf(file, "\"type\": [\"number\", \"string\"], \"minimum\": 0, "
                      "\"pattern\": \"^[0-9]+(\\\\.[0-9]+)? *"
                      "(%s|B|[KMGT]i?B)?$\"",
                row->kind == DCP_CONFIG_BUDGET ? "%" : "");
        break;
    case DCP_CONFIG_WORD:
        put_words(file, row);
        break;
    case DCP_CONFIG_TEXT:
        fputs("\"type\": \"string\"", file);
        break;
    case DCP_CONFIG_EVERY:
        fputs("\"type\": [\"boolean\", \"integer\"], \"minimum\": 0", file);
        break;
    case DCP_CONFIG_NAMES:
    case DCP_CONFIG_LIST:
        fputs("\"type\": \"array\", \"items\": {", file);
        if (row->words)
            put_words(file, row);
        else
            fputs("\"type\": \"string\"", file);
        fputc('}', file);
        break;
    case DCP_CONFIG_ANY:
        break;
    }
}

static void
put_default(FILE *file, const struct dcp_config_row *row)
{
    switch ((enum dcp_config_kind)row->kind) {
    case DCP_CONFIG_BOOL:
        fprintf(file, ", \"default\": %s", row->otherwise ? "true" : "false");
        break;
    case DCP_CONFIG_INT:
        if (row->otherwise < row->least)
            break;
        /* fall through */
    case DCP_CONFIG_FLOAT:
        fprintf(file, ", \"default\": %.15g", row->otherwise);
        break;
    case DCP_CONFIG_WORD: {
        const char *word = row->words;

        for (int i = 0; i < (int)row->otherwise; i++)
            word += strcspn(word, "|") + 1;
        fputs(", \"default\": ", file);
        put_string(file, word, strcspn(word, "|"));
        break;
    }
    default:
        break;
    }
}

/* A key that is not our own may also be null or "auto": not set. */
static void
put_row(FILE *file, const struct dcp_config_row *row)
{
    bool ours = !strncmp(row->path, "dcprel.", 7);

    fputs("{\"description\": ", file);
    put_string(file, row->help, strlen(row->help));
    if (row->state != DCP_CONFIG_ACTS)
        fprintf(file, ", \"$comment\": \"%s\"",
                dcp_config_state_text(row->state));
    fputs(ours ? ", " : ", \"anyOf\": [{\"enum\": [null, \"auto\"]}, {", file);
    put_type(file, row);
    fputs(ours ? "" : "}]", file);
    if (row->offset >= 0)
        put_default(file, row);
    fputc('}', file);
}

/* --- the tree ------------------------------------------------------------ */

/* The part of a row's path below `prefix` (`length` bytes, its dot included);
 * NULL: it is elsewhere. */
static const char *
below(const struct dcp_config_row *row, const char *prefix, size_t length)
{
    return strncmp(row->path, prefix, length) ? NULL : row->path + length;
}

/* True when an earlier row has the same next part. */
static bool
seen(int index, const char *prefix, size_t length, size_t part)
{
    const char *name = dcp_config_rows[index].path + length;

    for (int i = 0; i < index; i++) {
        const char *other = below(&dcp_config_rows[i], prefix, length);

        if (other && strcspn(other, ".") == part &&
            !memcmp(other, name, part))
            return true;
    }
    return false;
}

static void
indent(FILE *file, unsigned depth)
{
    fprintf(file, "\n%*s", (int)(2 * depth), "");
}

static void
put_object(FILE *file, const char *prefix, size_t length, unsigned depth)
{
    bool open = false, first = true;

    fputs("\"properties\": {", file);
    for (int i = 0; i < DCP_CONFIG_KEYS; i++) {
        const struct dcp_config_row *row = &dcp_config_rows[i];
        const char *name = below(row, prefix, length);

        if (!name)
            continue;
        size_t part = strcspn(name, ".");
        open |= !strcmp(name, "*");
        if (name[0] == '*' || seen(i, prefix, length, part))
            continue;
        fputs(first ? "" : ",", file);
        first = false;
        indent(file, depth + 1);
        put_string(file, name, part);
        fputs(": ", file);
        if (name[part] == '\0') {
            put_row(file, row);
            continue;
        }
        fputs("{\"type\": [\"object\", \"null\"], ", file);
        put_object(file, row->path, length + part + 1, depth + 1);
        fputc('}', file);
    }
    if (!first)
        indent(file, depth);
    fprintf(file, "}, \"additionalProperties\": %s", open ? "true" : "false");
}

void
dcp_config_schema(FILE *file)
{
    fputs("{\n  \"$schema\": "
          "\"https://json-schema.org/draft/2020-12/schema\",\n"
          "  \"title\": \"Configuration of dcprel\",\n"
          "  \"type\": \"object\",\n  ", file);
    put_object(file, "", 0, 1);
    fputs("\n}\n", file);
}
