/* The tool's JSON output: base/json.h's writer with key and value in one call. */
#include "api/api.h"

#include <stdlib.h>

#include "base/json.h"

struct tutti_json {
    struct tt_json_writer w;
    bool array[TT_JSON_DEPTH]; /* what each open level is */
    int depth;
};

struct tutti_json *tutti_json_open(FILE *out)
{
    struct tutti_json *j = tt_zalloc(1, sizeof *j);
    if (j)
        tt_json_begin(&j->w, out);
    return j;
}

static void key_of(struct tutti_json *j, const char *key)
{
    if (key)
        tt_json_key(&j->w, key);
}

void tutti_json_object(struct tutti_json *j, const char *key)
{
    key_of(j, key);
    tt_json_object(&j->w);
    j->array[j->depth++] = false;
}

void tutti_json_array(struct tutti_json *j, const char *key)
{
    key_of(j, key);
    tt_json_array(&j->w);
    j->array[j->depth++] = true;
}

void tutti_json_end(struct tutti_json *j)
{
    if (j->array[--j->depth])
        tt_json_array_end(&j->w);
    else
        tt_json_object_end(&j->w);
}

void tutti_json_string(struct tutti_json *j, const char *key, const char *value)
{
    key_of(j, key);
    tt_json_string(&j->w, value);
}

void tutti_json_u64(struct tutti_json *j, const char *key, uint64_t value)
{
    key_of(j, key);
    tt_json_u64(&j->w, value);
}

void tutti_json_real(struct tutti_json *j, const char *key, double value)
{
    key_of(j, key);
    tt_json_real(&j->w, value);
}

void tutti_json_bool(struct tutti_json *j, const char *key, bool value)
{
    key_of(j, key);
    tt_json_bool(&j->w, value);
}

void tutti_json_null(struct tutti_json *j, const char *key)
{
    key_of(j, key);
    tt_json_null(&j->w);
}

void tutti_json_close(struct tutti_json *j)
{
    tt_json_finish(&j->w);
    free(j);
}
