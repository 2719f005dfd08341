/* json_take.c - what parsers of JSON documents need again and again: a token of one kind, an
 * integer in a range or the end of the array, a value to skip. Everything goes through
 * tt_json_next, and every refusal names the position of the token. */
#include "base/json.h"

static const char *kind_name(enum tt_json_kind kind)
{
    static const char *const names[] = {
        [TT_JSON_END] = "the end of the document",
        [TT_JSON_OBJECT] = "an object",
        [TT_JSON_OBJECT_END] = "the end of the object",
        [TT_JSON_ARRAY] = "an array",
        [TT_JSON_ARRAY_END] = "the end of the array",
        [TT_JSON_KEY] = "a key",
        [TT_JSON_STRING] = "a string",
        [TT_JSON_INT] = "an integer",
        [TT_JSON_REAL] = "a number",
        [TT_JSON_TRUE] = "true",
        [TT_JSON_FALSE] = "false",
        [TT_JSON_NULL] = "null",
    };

    return names[kind];
}

tutti_status tt_json_expect(struct tt_json_reader *r, enum tt_json_kind kind,
                            struct tt_json_token *ret, struct tutti_error *err)
{
    struct tt_json_token token;
    tutti_status status = tt_json_next(r, &token, err);

    if (status)
        return status;
    if (token.kind == kind) {
        *ret = token;
        return TUTTI_OK;
    }
    if (kind == TT_JSON_INT && token.kind == TT_JSON_REAL)
        return tt_json_fail(r, err, TUTTI_ERR_PARSE, "expected an integer of at most 63 bits");
    return tt_json_fail(r, err, TUTTI_ERR_PARSE, "expected %s, found %s", kind_name(kind),
                        kind_name(token.kind));
}

tutti_status tt_json_int_or_end(struct tt_json_reader *r, int64_t min, int64_t max, int64_t *ret,
                                bool *ret_end, struct tutti_error *err)
{
    struct tt_json_token token;
    tutti_status status = tt_json_next(r, &token, err);

    if (status)
        return status;
    if (token.kind == TT_JSON_ARRAY_END) {
        *ret_end = true;
        return TUTTI_OK;
    }
    if (token.kind != TT_JSON_INT)
        return tt_json_fail(r, err, TUTTI_ERR_PARSE,
                            "expected an integer of at most 63 bits, found %s",
                            kind_name(token.kind));
    if (token.i < min || token.i > max)
        return tt_json_fail(r, err, TUTTI_ERR_RANGE, "%lld is not from %lld to %lld",
                            (long long)token.i, (long long)min, (long long)max);
    *ret = token.i;
    *ret_end = false;
    return TUTTI_OK;
}

/* Counts open levels instead of recursing. */
tutti_status tt_json_skip(struct tt_json_reader *r, struct tutti_error *err)
{
    int depth = 0;

    do {
        struct tt_json_token token;
        tutti_status status = tt_json_next(r, &token, err);
        if (status)
            return status;
        bool opens = token.kind == TT_JSON_OBJECT || token.kind == TT_JSON_ARRAY;
        bool closes = token.kind == TT_JSON_OBJECT_END || token.kind == TT_JSON_ARRAY_END;
        bool no_value = closes || token.kind == TT_JSON_KEY || token.kind == TT_JSON_END;
        if (depth == 0 && no_value)
            return tt_json_fail(r, err, TUTTI_ERR_PARSE, "expected a value, found %s",
                                kind_name(token.kind));
        depth += opens - closes;
    } while (depth > 0);
    return TUTTI_OK;
}
