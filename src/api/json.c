/* json.c - the tool's JSON output: the writer of base/json.h with key and value in one call.
 *
 * Misuse (a missing key, a level that is not closed) is a mistake of the program and aborts: a
 * document that is not valid never leaves the tool.
 *
 *     tutti_json_object(j, NULL);          {
 *     tutti_json_u64(j, "ranks", 4);         "ranks": 4,
 *     tutti_json_array(j, "rows");           "rows": [
 *     tutti_json_end(j);                     ]
 *     tutti_json_end(j);                   } */
#include "api/api.h"

#include <stdlib.h>

#include "base/json.h"

struct api_json {
    struct tt_json_writer w;
    bool array[TT_JSON_DEPTH]; /* per open level: array or object */
    int depth;
    bool whole; /* the document's one value has begun */
};

/* NULL when out of memory or handles; every later call then aborts with a sentence. */
struct tutti_json *tutti_json_open(FILE *out)
{
    api_must("out", out);
    struct api_json *j = tt_zalloc(1, sizeof *j);
    void *handle = j ? tt_api_make(API_JSON, j, NULL, NULL) : NULL;
    if (!handle) {
        free(j);
        return NULL;
    }
    tt_json_begin(&j->w, out);
    return handle;
}

/* Finds the document and checks that a value with this key (NULL: without one) may come next. */
static struct api_json *json_next(struct tutti_json *document, const char *key,
                                  const char *function)
{
    struct api_json *j = tt_api_needed(API_JSON, document, function);
    bool needs_key = j->depth && !j->array[j->depth - 1];
    if (needs_key != (key != NULL))
        tt_api_stop(function, needs_key ? "a value of an object needs a key"
                                        : "a value outside of objects has no key");
    if (!j->depth && j->whole)
        tt_api_stop(function, "the document has its value already");
    if (key)
        tt_json_key(&j->w, key);
    j->whole = true;
    return j;
}

/* Opens an object or an array. */
static void open_level(struct tutti_json *document, const char *key, bool array,
                       const char *function)
{
    struct api_json *j = json_next(document, key, function);
    if (j->depth == TT_JSON_DEPTH)
        tt_api_stop(function, "more than %d levels", (int)TT_JSON_DEPTH);
    if (array)
        tt_json_array(&j->w);
    else
        tt_json_object(&j->w);
    j->array[j->depth++] = array;
}

void tutti_json_object(struct tutti_json *j, const char *key)
{
    open_level(j, key, false, __func__);
}

void tutti_json_array(struct tutti_json *j, const char *key)
{
    open_level(j, key, true, __func__);
}

void tutti_json_end(struct tutti_json *j)
{
    struct api_json *document = api_need(JSON, j);
    if (!document->depth)
        tt_api_stop(__func__, "no object or array is open");
    if (document->array[--document->depth])
        tt_json_array_end(&document->w);
    else
        tt_json_object_end(&document->w);
}

struct tt_json_writer *tt_api_json_value(struct tutti_json *j, const char *key,
                                         const char *function)
{
    return &json_next(j, key, function)->w;
}

void tutti_json_string(struct tutti_json *j, const char *key, const char *value)
{
    tt_json_string(&json_next(j, key, __func__)->w, value);
}

void tutti_json_u64(struct tutti_json *j, const char *key, uint64_t value)
{
    tt_json_u64(&json_next(j, key, __func__)->w, value);
}

void tutti_json_real(struct tutti_json *j, const char *key, double value)
{
    tt_json_real(&json_next(j, key, __func__)->w, value);
}

void tutti_json_bool(struct tutti_json *j, const char *key, bool value)
{
    tt_json_bool(&json_next(j, key, __func__)->w, value);
}

void tutti_json_null(struct tutti_json *j, const char *key)
{
    tt_json_null(&json_next(j, key, __func__)->w);
}

void tutti_json_close(struct tutti_json *j)
{
    struct api_json *document = api_end(JSON, j);
    if (!document)
        return;
    if (document->depth)
        tt_api_stop(__func__, "%d objects or arrays are still open", document->depth);
    tt_json_finish(&document->w);
    free(document);
}
