/* json_read.c - reads JSON (RFC 8259, strictly) one token at a time.
 *
 * The reader is a state machine over a 64 KiB window: a stack of one flag per open level (object
 * or array), and what may come next. It never recurses and never allocates after opening, so
 * that a hostile file costs time linear in its length and nothing else. Beyond the grammar it
 * refuses: more than TT_JSON_DEPTH levels, strings over TT_JSON_TEXT bytes, numbers over 64
 * characters or beyond a double, NUL in strings, and bytes that are not UTF-8 (also a byte order
 * mark). Keys may repeat; callers decide about those. */
#define TT_JSON_IMPLEMENTATION
#include "base/json_reader.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { WINDOW = 65536 };

static tutti_status json_read_make(const char *name, struct tt_json_reader **ret,
                                   struct tutti_error *err)
{
    struct tt_json_reader *r = tt_zalloc(1, sizeof *r);

    if (r)
        r->name = tt_strdup(name);
    if (!r || !r->name) {
        tt_json_close(r);
        return tt_fail_memory(err, "JSON reader");
    }
    r->line = r->token_line = r->token_column = 1;
    *ret = r;
    return TUTTI_OK;
}

tutti_status tt_json_open_file(FILE *in, const char *name, struct tt_json_reader **ret,
                               struct tutti_error *err)
{
    struct tt_json_reader *r = NULL;
    tutti_status status = json_read_make(name, &r, err);

    if (status)
        return status;
    r->in = in;
    r->window = r->buffer = tt_alloc(WINDOW, 1);
    if (!r->buffer) {
        tt_json_close(r);
        return tt_fail_memory(err, "JSON reader");
    }
    *ret = r;
    return TUTTI_OK;
}

tutti_status tt_json_open_memory(const char *data, size_t len, const char *name,
                                 struct tt_json_reader **ret, struct tutti_error *err)
{
    tutti_status status = json_read_make(name, ret, err);

    if (status)
        return status;
    (*ret)->window = (const unsigned char *)data;
    (*ret)->len = len;
    return TUTTI_OK;
}

void tt_json_close(struct tt_json_reader *r)
{
    if (!r)
        return;
    free(r->buffer);
    free(r->name);
    free(r);
}

uint64_t tt_json_bytes(const struct tt_json_reader *r)
{
    return r->base + r->at;
}

static uint64_t json_read_column(const struct tt_json_reader *r)
{
    return tt_json_bytes(r) - r->line_start + 1;
}

/* Fails with name, line and column (`place`) before the text. */
static tutti_status vfail(struct tutti_error *err, const char *name, const uint64_t place[2],
                          tutti_status status, const char *fmt, va_list ap)
{
    char text[sizeof err->text];

    vsnprintf(text, sizeof text, fmt, ap);
    return tt_fail(err, status, "%.200s:%llu:%llu: %s", name, (unsigned long long)place[0],
                   (unsigned long long)place[1], text);
}

tutti_status tt_json_fail(struct tt_json_reader *r, struct tutti_error *err, tutti_status status,
                          const char *fmt, ...)
{
    const uint64_t place[2] = {r->token_line, r->token_column};
    va_list ap;

    va_start(ap, fmt);
    vfail(err, r->name, place, status, fmt, ap);
    va_end(ap);
    return status;
}

tutti_status tt_json_fail_here(struct tt_json_reader *r, tutti_status status, const char *fmt, ...)
{
    const uint64_t place[2] = {r->line, json_read_column(r)};
    va_list ap;

    if (r->failed) /* reading itself failed: keep that reason */
        return r->failed;
    va_start(ap, fmt);
    vfail(&r->error, r->name, place, status, fmt, ap);
    va_end(ap);
    return r->failed = status;
}

bool tt_json_refill(struct tt_json_reader *r)
{
    if (!r->in || r->failed)
        return false;
    r->base += r->len;
    r->at = r->len = 0;
    r->len = fread(r->buffer, 1, WINDOW, r->in);
    if (r->len == 0 && ferror(r->in))
        tt_json_fail_here(r, TUTTI_ERR_IO, "cannot read: %s", strerror(errno));
    return r->len > 0;
}

tutti_status tt_json_unexpected(struct tt_json_reader *r, const char *expected)
{
    int c = tt_json_peek(r);

    if (c == TT_JSON_END_OF_INPUT)
        return tt_json_fail_here(r, TUTTI_ERR_PARSE, "expected %s, found the end of the input",
                                 expected);
    if (c > 0x20 && c < 0x7f)
        return tt_json_fail_here(r, TUTTI_ERR_PARSE, "expected %s, found '%c'", expected, c);
    return tt_json_fail_here(r, TUTTI_ERR_PARSE, "expected %s, found byte 0x%02x", expected,
                             (unsigned)c);
}

/* Skips white space and counts lines; returns the next byte without consuming it. */
static int skip_space(struct tt_json_reader *r)
{
    int c;

    while ((c = tt_json_peek(r)) == ' ' || c == '\n' || c == '\t' || c == '\r') {
        r->at++;
        if (c == '\n') {
            r->line++;
            r->line_start = tt_json_bytes(r);
        }
    }
    return c;
}

static void mark_token(struct tt_json_reader *r)
{
    r->token_line = r->line;
    r->token_column = json_read_column(r);
}

/* The first letter has selected the word; the rest must match. */
static tutti_status parse_word(struct tt_json_reader *r, const char *word, enum tt_json_kind kind,
                               struct tt_json_token *ret)
{
    for (const char *p = word; *p; p++, r->at++)
        if (tt_json_peek(r) != *p)
            return tt_json_unexpected(r, word);
    ret->kind = kind;
    return TUTTI_OK;
}

static tutti_status open_level(struct tt_json_reader *r, bool object, struct tt_json_token *ret)
{
    if (r->depth == TT_JSON_DEPTH)
        return tt_json_fail_here(r, TUTTI_ERR_LIMIT, "nested deeper than %d levels", TT_JSON_DEPTH);
    r->is_object[r->depth++] = object;
    r->at++;
    ret->kind = object ? TT_JSON_OBJECT : TT_JSON_ARRAY;
    r->state = object ? TT_JSON_WANT_FIRST_KEY : TT_JSON_WANT_FIRST_VALUE;
    return TUTTI_OK;
}

/* What may follow a complete value. */
static void value_complete(struct tt_json_reader *r)
{
    r->state = r->depth ? TT_JSON_WANT_COMMA_OR_END : TT_JSON_WANT_NOTHING;
}

static tutti_status close_level(struct tt_json_reader *r, struct tt_json_token *ret)
{
    ret->kind = r->is_object[--r->depth] ? TT_JSON_OBJECT_END : TT_JSON_ARRAY_END;
    r->at++;
    value_complete(r);
    return TUTTI_OK;
}

static tutti_status parse_value(struct tt_json_reader *r, int c, struct tt_json_token *ret)
{
    tutti_status status;

    if (c == '{' || c == '[')
        return open_level(r, c == '{', ret);
    if (c == '-' || (c >= '0' && c <= '9'))
        status = tt_json_lex_number(r, ret);
    else if (c == '"') {
        ret->kind = TT_JSON_STRING;
        status = tt_json_lex_string(r, ret);
    } else if (c == 't')
        status = parse_word(r, "true", TT_JSON_TRUE, ret);
    else if (c == 'f')
        status = parse_word(r, "false", TT_JSON_FALSE, ret);
    else if (c == 'n')
        status = parse_word(r, "null", TT_JSON_NULL, ret);
    else
        return tt_json_unexpected(r, "a value");
    if (!status)
        value_complete(r);
    return status;
}

static tutti_status parse_key(struct tt_json_reader *r, int c, struct tt_json_token *ret)
{
    if (c != '"')
        return tt_json_unexpected(r, "a key in double quotes");
    tutti_status status = tt_json_lex_string(r, ret);
    if (status)
        return status;
    if (skip_space(r) != ':')
        return tt_json_unexpected(r, "':' after the key");
    r->at++;
    ret->kind = TT_JSON_KEY;
    r->state = TT_JSON_WANT_VALUE;
    return TUTTI_OK;
}

/* A failure of reading looks like the end of the input: it is reported as itself. */
static tutti_status parse_end(struct tt_json_reader *r, int c, struct tt_json_token *ret)
{
    if (c != TT_JSON_END_OF_INPUT)
        return tt_json_unexpected(r, "nothing after the document");
    if (r->failed)
        return r->failed;
    ret->kind = TT_JSON_END;
    return TUTTI_OK;
}

/* One step of the state machine. A comma is consumed together with the token after it. */
static tutti_status parse_token(struct tt_json_reader *r, struct tt_json_token *ret)
{
    int c = skip_space(r);
    bool object = r->depth && r->is_object[r->depth - 1];

    mark_token(r);
    if (r->state == TT_JSON_WANT_NOTHING)
        return parse_end(r, c, ret);
    bool may_end = r->state == TT_JSON_WANT_COMMA_OR_END || r->state == TT_JSON_WANT_FIRST_KEY ||
                   r->state == TT_JSON_WANT_FIRST_VALUE;
    if (may_end && c == (object ? '}' : ']'))
        return close_level(r, ret);
    if (r->state == TT_JSON_WANT_COMMA_OR_END) {
        if (c != ',')
            return tt_json_unexpected(r, object ? "',' or '}'" : "',' or ']'");
        r->at++;
        c = skip_space(r);
        mark_token(r);
        r->state = object ? TT_JSON_WANT_KEY : TT_JSON_WANT_VALUE;
    }
    if (r->state == TT_JSON_WANT_KEY || r->state == TT_JSON_WANT_FIRST_KEY)
        return parse_key(r, c, ret);
    return parse_value(r, c, ret);
}

tutti_status tt_json_next(struct tt_json_reader *r, struct tt_json_token *ret,
                          struct tutti_error *err)
{
    struct tt_json_token token = {.kind = TT_JSON_END};
    tutti_status status = r->failed ? r->failed : parse_token(r, &token);

    if (status) {
        if (err)
            *err = r->error;
        return status;
    }
    *ret = token;
    return TUTTI_OK;
}
