/* json.h - a streaming JSON reader and writer.
 *
 * Why not a library: a plan of 65,536 ranks has millions of operations, and a tree of objects
 * for it would take gigabytes. This reader hands out one token at a time in constant memory,
 * knows its position, limits the depth, and never recurses. Numbers are exact: integers that fit
 * int64 are TT_JSON_INT, all others TT_JSON_REAL. */
#ifndef TT_JSON_H
#define TT_JSON_H

#include "base/base.h"

enum tt_json_kind {
    TT_JSON_END,        /* end of the document (only white space followed) */
    TT_JSON_OBJECT,     /* { */
    TT_JSON_OBJECT_END, /* } */
    TT_JSON_ARRAY,      /* [ */
    TT_JSON_ARRAY_END,  /* ] */
    TT_JSON_KEY,        /* text/len */
    TT_JSON_STRING,     /* text/len, UTF-8, escapes decoded */
    TT_JSON_INT,
    TT_JSON_REAL,
    TT_JSON_TRUE,
    TT_JSON_FALSE,
    TT_JSON_NULL,
};

enum { TT_JSON_DEPTH = 32, TT_JSON_TEXT = 4096 };

struct tt_json_reader; /* opaque */

/* The reader borrows `in` or `data`, which must outlive it; `name` (copied) is the file's name
 * in errors. Every error reads "name:line:column: reason". */
tutti_status tt_json_open_file(FILE *in, const char *name, struct tt_json_reader **ret,
                               struct tutti_error *err);
tutti_status tt_json_open_memory(const char *data, size_t len, const char *name,
                                 struct tt_json_reader **ret, struct tutti_error *err);
void tt_json_close(struct tt_json_reader *r); /* accepts NULL */

struct tt_json_token {
    enum tt_json_kind kind;
    /* key or string, NUL-terminated (embedded NULs are refused); valid until the next call */
    const char *text;
    size_t len;
    int64_t i; /* TT_JSON_INT */
    double d;  /* TT_JSON_INT and TT_JSON_REAL */
};
tutti_status tt_json_next(struct tt_json_reader *r, struct tt_json_token *ret,
                          struct tutti_error *err);
/* Like next, but fails unless the token is of this kind. */
tutti_status tt_json_expect(struct tt_json_reader *r, enum tt_json_kind kind,
                            struct tt_json_token *ret, struct tutti_error *err);
/* Inside an array: reads an integer in [min, max] (*ret_end false), or the end of the array
 * (*ret_end true). */
tutti_status tt_json_int_or_end(struct tt_json_reader *r, int64_t min, int64_t max, int64_t *ret,
                                bool *ret_end, struct tutti_error *err);
/* Skips one whole value, which the next token begins. */
tutti_status tt_json_skip(struct tt_json_reader *r, struct tutti_error *err);
/* Fails with "name:line:column: " and the text, at the position of the token last returned. */
tutti_status tt_json_fail(struct tt_json_reader *r, struct tutti_error *err, tutti_status status,
                          const char *fmt, ...) __attribute__((format(printf, 4, 5)));
#if defined(__clang_analyzer__) && !defined(TT_JSON_IMPLEMENTATION)
#define tt_json_fail(r, err, st, ...) \
    (tt_json_fail(r, err, st, __VA_ARGS__), (st) != TUTTI_OK ? (st) : TUTTI_ERR_ARG)
#endif
/* Bytes consumed so far: what a file may make us allocate can be limited by its length. */
uint64_t tt_json_bytes(const struct tt_json_reader *r);

/* ---- writer: commas and indentation are automatic; errors show in the FILE's error flag ---- */
struct tt_json_writer {
    FILE *out;
    int depth;
    bool compact[TT_JSON_DEPTH]; /* this level is written on one line */
    bool any[TT_JSON_DEPTH];     /* this level already has a member */
    bool after_key;
};
void tt_json_begin(struct tt_json_writer *w, FILE *out);
void tt_json_object(struct tt_json_writer *w); /* { , members on lines of their own */
void tt_json_object_compact(struct tt_json_writer *w);
void tt_json_object_end(struct tt_json_writer *w);
void tt_json_array(struct tt_json_writer *w);
void tt_json_array_compact(struct tt_json_writer *w);
void tt_json_array_end(struct tt_json_writer *w);
void tt_json_key(struct tt_json_writer *w, const char *key);
void tt_json_string(struct tt_json_writer *w, const char *s); /* NULL writes null */
void tt_json_u64(struct tt_json_writer *w, uint64_t v);
/* Writes the shortest text that reads back to the same double; null when it is not finite. */
void tt_json_real(struct tt_json_writer *w, double v);
void tt_json_bool(struct tt_json_writer *w, bool v);
void tt_json_null(struct tt_json_writer *w);
/* A key and its value. */
void tt_json_member_string(struct tt_json_writer *w, const char *key, const char *s);
void tt_json_member_u64(struct tt_json_writer *w, const char *key, uint64_t v);
void tt_json_member_real(struct tt_json_writer *w, const char *key, double v);
void tt_json_member_bool(struct tt_json_writer *w, const char *key, bool v);
void tt_json_finish(struct tt_json_writer *w); /* the final newline */
#endif
