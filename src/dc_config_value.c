/* SPDX-License-Identifier: Apache-2.0 */
/* From a member of the file to the field of its row. */
#include "config.h"

#include "src/dc_config_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct value {
    struct dcp_config_reader *reader;
    const struct dcp_config_row *row;
    const struct dcp_member *member;
    json_t *json; /* the value, decoded */
};

static bool
fault(const struct value *v, enum dcp_status status, const char *text)
{
    dcp_config_fault(v->reader, status, v->member->line, v->member->path, "%s",
                     text);
    return false;
}

static bool
fault_type(const struct value *v, const char *wanted)
{
    static const char kinds[] = "{[\"tfn0";
    static const char *const words[] = {
        "an object", "a list", "a string", "a boolean",
        "a boolean", "null",   "a number",
    };
    const char *at = strchr(kinds, v->member->kind);
    char text[160];

    snprintf(text, sizeof text, "wrong type: %s is wanted, not %s", wanted,
             at && *at ? words[at - kinds] : "this");
    return fault(v, DCP_INVALID, text);
}

static bool
fault_range(const struct value *v, double number, const char *unit)
{
    char text[160];

    snprintf(text, sizeof text,
             "out of range: %.15g%s is not between %.15g and %.15g", number,
             unit, v->row->least, v->row->most);
    return fault(v, DCP_RANGE, text);
}

static bool
fault_refused(const struct value *v)
{
    char text[256];

    snprintf(text, sizeof text, "refused: %s", v->row->help);
    return fault(v, DCP_UNSUPPORTED, text);
}

static void *
field(const struct value *v)
{
    return v->row->offset < 0 ? NULL : (char *)v->reader->out + v->row->offset;
}

/* --- numbers ------------------------------------------------------------- */

static bool
number(const struct value *v, double *out)
{
    if (v->member->kind != '0')
        return false;
    *out = v->reader->json->number_value(v->json);
    return true;
}

static bool
in_range(const struct value *v, double x)
{
    if (x >= v->row->least && x <= v->row->most)
        return true;
    return fault_range(v, x, "");
}

static bool
is_whole(double x)
{
    return x == (double)(int64_t)x; /* the ranges keep x small */
}

static bool
take_int(const struct value *v)
{
    int64_t *to = field(v);
    double x;

    if (!number(v, &x))
        return fault_type(v, "an integer");
    if (!in_range(v, x))
        return false;
    if (!is_whole(x))
        return fault(v, DCP_INVALID, "wrong type: an integer is wanted");
    *to = (int64_t)x;
    return true;
}

static bool
take_float(const struct value *v)
{
    double *to = field(v), x;

    if (!number(v, &x))
        return fault_type(v, "a number");
    if (!in_range(v, x))
        return false;
    *to = x;
    return true;
}

/* A number that nobody reads. A refused row refuses from its least on. */
static bool
take_number(const struct value *v)
{
    double x;

    if (!number(v, &x))
        return fault_type(v, "a number");
    if (v->row->state == DCP_CONFIG_REFUSED)
        return x < v->row->least ? true : fault_refused(v);
    return in_range(v, x);
}

static bool
take_bool(const struct value *v)
{
    bool *to = field(v), x = v->member->kind == 't';

    if (!x && v->member->kind != 'f')
        return fault_type(v, "true or false");
    if (x && v->row->state == DCP_CONFIG_REFUSED)
        return fault_refused(v);
    if (to)
        *to = x;
    return true;
}

static bool
take_every(const struct value *v)
{
    uint32_t *to = field(v);
    double x;

    if (v->member->kind == 't' || v->member->kind == 'f')
        x = v->member->kind == 't';
    else if (!number(v, &x))
        return fault_type(v, "true, false or an integer");
    if (!in_range(v, x))
        return false;
    if (!is_whole(x))
        return fault(v, DCP_INVALID, "wrong type: an integer is wanted");
    *to = (uint32_t)x;
    return true;
}

/* --- bytes --------------------------------------------------------------- */

static double
unit_factor(const char *unit)
{
    static const struct {
        const char *name;
        double factor;
    } units[] = {
        {"", 1},
        {"B", 1},
        {"KB", 1e3},
        {"MB", 1e6},
        {"GB", 1e9},
        {"TB", 1e12},
        {"KiB", 1024.0},
        {"MiB", 1048576.0},
        {"GiB", 1073741824.0},
        {"TiB", 1099511627776.0},
    };

    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
        if (!strcmp(unit, units[i].name))
            return units[i].factor;
    return 0;
}

/* "40GiB", "1.5 GB", "60%". Decimal digits only: strtod would take "inf",
 * "0x1p9" and the comma of some languages. */
static bool
parse_bytes(const char *text, double *out, bool *percent)
{
    double whole = 0, scale = 1;
    const char *c = text;

    for (; *c >= '0' && *c <= '9'; c++)
        whole = whole * 10 + (*c - '0');
    if (c == text)
        return false;
    if (*c == '.') {
        if (c[1] < '0' || c[1] > '9')
            return false;
        for (c++; *c >= '0' && *c <= '9'; c++)
            whole += (*c - '0') * (scale /= 10);
    }
    while (*c == ' ')
        c++;
    *percent = !strcmp(c, "%");
    double factor = *percent ? 1 : unit_factor(c);
    *out = whole * factor;
    return factor > 0;
}

static bool
take_bytes(const struct value *v)
{
    bool budget = v->row->kind == DCP_CONFIG_BUDGET, percent = false;
    uint64_t *to = field(v);
    double x;

    if (!number(v, &x)) {
        if (v->member->kind != '"')
            return fault_type(v, budget ? "bytes, \"40GiB\" or \"60%\""
                                        : "bytes or \"16MiB\"");
        if (!parse_bytes(v->reader->json->string_value(v->json), &x,
                         &percent) ||
            (percent && !budget))
            return fault(v, DCP_INVALID,
                         budget ? "not a size: bytes, \"40GiB\" or \"60%\" is "
                                  "wanted"
                                : "not a size: bytes or \"16MiB\" is wanted");
    }
    if (percent) {
        if (!(x > 0 && x <= 100))
            return fault(v, DCP_RANGE,
                         "out of range: a percentage is above 0 and at most "
                         "100");
        /* the two fields of a budget stand side by side */
        v->reader->out->memory_budget_percent = x;
        *to = 0;
        return true;
    }
    if (!in_range(v, x))
        return false;
    *to = (uint64_t)x;
    return true;
}

/* --- words --------------------------------------------------------------- */

static bool
fault_word(const struct value *v, const char *word)
{
    char text[320], list[160];
    size_t used = 0;

    if (v->row->state == DCP_CONFIG_REFUSED)
        return fault_refused(v);
    for (const char *c = v->row->words; *c && used < sizeof list - 3; c++) {
        list[used++] = *c == '|' ? ',' : *c;
        if (*c == '|')
            list[used++] = ' ';
    }
    list[used] = '\0';
    snprintf(text, sizeof text, "\"%.64s\" is not one of %s", word, list);
    return fault(v, DCP_INVALID, text);
}

static bool
take_word(const struct value *v)
{
    const struct dcp_json *json = v->reader->json;
    int *to = field(v);

    if (v->member->kind != '"')
        return fault_type(v, "a string");
    const char *word = json->string_value(v->json);
    int index =
        dcp_config_word(v->row->words, word, json->string_length(v->json));
    if (index < 0)
        return fault_word(v, word);
    if (to)
        *to = index;
    return true;
}

static bool
take_text(const struct value *v)
{
    char *to = field(v);

    if (v->member->kind != '"')
        return fault_type(v, "a string");
    if (!to)
        return true;
    size_t length = v->reader->json->string_length(v->json);
    if (length >= v->row->room)
        return fault(v, DCP_RANGE, "out of range: the string is too long");
    memcpy(to, v->reader->json->string_value(v->json), length + 1);
    return true;
}

/* --- lists --------------------------------------------------------------- */

static bool
is_name(const char *name)
{
    size_t length = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_-");

    return length > 0 && name[length] == '\0';
}

/* Appends to a list of names in a field. */
static bool
add_name(const struct value *v, const char *name)
{
    char *to = field(v);
    size_t used = strlen(to), length = strlen(name);

    if (!is_name(name))
        return fault(v, DCP_INVALID,
                     "not a name: small letters, digits, _ and "
                     "- are wanted");
    if (used + length + 2 > v->row->room)
        return fault(v, DCP_RANGE, "out of range: the list is too long");
    if (used)
        to[used++] = ',';
    memcpy(to + used, name, length + 1);
    return true;
}

static bool
take_list(const struct value *v)
{
    const struct dcp_json *json = v->reader->json;

    if (v->member->kind != '[')
        return fault_type(v, "a list of strings");
    for (size_t i = 0; i < json->array_size(v->json); i++) {
        json_t *item = json->array_get(v->json, i);

        if (!json_is_string(item))
            return fault(v, DCP_INVALID,
                         "wrong type: a list of strings is "
                         "wanted");
        const char *word = json->string_value(item);
        if (v->row->words &&
            dcp_config_word(v->row->words, word, json->string_length(item)) < 0)
            return fault_word(v, word);
        if (field(v) && !add_name(v, word))
            return false;
    }
    return true;
}

/* --- all of them --------------------------------------------------------- */

static bool
take(const struct value *v)
{
    switch ((enum dcp_config_kind)v->row->kind) {
    case DCP_CONFIG_BOOL:
        return take_bool(v);
    case DCP_CONFIG_INT:
        return take_int(v);
    case DCP_CONFIG_FLOAT:
        return take_float(v);
    case DCP_CONFIG_BYTES:
    case DCP_CONFIG_BUDGET:
        return take_bytes(v);
    case DCP_CONFIG_WORD:
        return take_word(v);
    case DCP_CONFIG_TEXT:
        return take_text(v);
    case DCP_CONFIG_EVERY:
        return take_every(v);
    case DCP_CONFIG_NUMBER:
        return take_number(v);
    case DCP_CONFIG_NAMES:
    case DCP_CONFIG_LIST:
        return take_list(v);
    case DCP_CONFIG_ANY:
        break;
    }
    return v->row->state == DCP_CONFIG_REFUSED ? fault_refused(v) : true;
}

bool
dcp_config_value(struct dcp_config_reader *reader,
                 const struct dcp_config_row *row,
                 const struct dcp_member *member)
{
    struct value v = {.reader = reader, .row = row, .member = member};

    if (row->kind != DCP_CONFIG_ANY) {
        v.json = reader->json->loadb(member->value, member->value_bytes,
                                     JSON_DECODE_ANY, NULL);
        if (!v.json)
            return fault(&v, DCP_NOMEM, "out of memory");
    }
    bool good = take(&v);
    dcp_json_free(reader->json, v.json);
    return good;
}
