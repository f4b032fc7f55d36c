/* SPDX-License-Identifier: Apache-2.0 */
/* The door to jansson. The library is opened when a configuration is read and
 * kept to ourselves: linked, its names would come before those of the program's
 * own libraries (json-c has functions of the same names). */
#ifndef DCP_SRC_JSON_H
#define DCP_SRC_JSON_H

#include <jansson.h>

/* JSON(result, function, parameters): what is used of it. */
#define DCP_JSON_FUNCTIONS(JSON)                                               \
    JSON(json_t *, loadb, (const char *, size_t, size_t, json_error_t *))      \
    JSON(void, delete, (json_t *))                                             \
    JSON(const char *, string_value, (const json_t *))                         \
    JSON(size_t, string_length, (const json_t *))                              \
    JSON(size_t, array_size, (const json_t *))                                 \
    JSON(json_t *, array_get, (const json_t *, size_t))                        \
    JSON(json_int_t, integer_value, (const json_t *))                          \
    JSON(double, number_value, (const json_t *))

struct dcp_json {
#define JSON(result, name, parameters) result(*name) parameters;
    DCP_JSON_FUNCTIONS(JSON)
#undef JSON
};

/* NULL when jansson is not there; *why (may be NULL) then says so, in storage
 * that lives until the next failure in this thread. Any thread. */
const struct dcp_json *dcp_json_open(const char **why);

/* Releases a value that has not been shared; accepts NULL. */
static inline void
dcp_json_free(const struct dcp_json *json, json_t *value)
{
    if (value && value->refcount != (size_t)-1)
        json->delete (value);
}

#endif
