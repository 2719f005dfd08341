/* json_reader.h - what the two halves of the JSON reader share: json_read.c walks the grammar,
 * json_lex.c reads numbers and strings.
 *
 * Invariant: window[at] is the next byte; `base` counts the bytes before the window, so that
 * positions are exact. Lines end at LF, columns count bytes from 1. The first error is kept in
 * `error` and returned by all later calls. */
#ifndef TT_JSON_READER_H
#define TT_JSON_READER_H

#include "base/json.h"

enum { TT_JSON_END_OF_INPUT = -1 };

enum tt_json_state {
    TT_JSON_WANT_VALUE,        /* a value must follow */
    TT_JSON_WANT_FIRST_VALUE,  /* a value or ] */
    TT_JSON_WANT_KEY,          /* a key must follow */
    TT_JSON_WANT_FIRST_KEY,    /* a key or } */
    TT_JSON_WANT_COMMA_OR_END, /* a value is complete inside an object or array */
    TT_JSON_WANT_NOTHING,      /* the root value is complete */
};

struct tt_json_reader {
    const unsigned char *window;
    size_t at, len;
    uint64_t base;
    uint64_t line, line_start; /* current line from 1, position of its first byte */
    uint64_t token_line, token_column;
    enum tt_json_state state;
    int depth;
    bool is_object[TT_JSON_DEPTH];
    tutti_status failed;
    struct tutti_error error;
    FILE *in; /* NULL: all input is in the window */
    char *name;
    unsigned char *buffer;
    /* room for one character beyond the limit, and the terminator */
    char text[TT_JSON_TEXT + 4 + 1];
};

/* Reads the next window; false at the end of the input or on failure. */
bool tt_json_refill(struct tt_json_reader *r);

/* The next byte, not consumed. */
static inline int tt_json_peek(struct tt_json_reader *r)
{
    if (r->at < r->len || tt_json_refill(r))
        return r->window[r->at];
    return TT_JSON_END_OF_INPUT;
}

/* Fails at the position of the next byte, for good. An earlier failure (such as one of reading)
 * stays the reason. */
tutti_status tt_json_fail_here(struct tt_json_reader *r, tutti_status status, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Fails with "expected <expected>, found <the next byte>". */
tutti_status tt_json_unexpected(struct tt_json_reader *r, const char *expected);

/* The next byte begins a number (a digit or a minus) or a string (a quote): reads all of it into
 * *ret. */
tutti_status tt_json_lex_number(struct tt_json_reader *r, struct tt_json_token *ret);
tutti_status tt_json_lex_string(struct tt_json_reader *r, struct tt_json_token *ret);
#endif
