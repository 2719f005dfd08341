/* base.h - what every module may use: errors, checked memory, vectors, strings, numbers with
 * units, random numbers, hashes, a clock. Nothing here knows about networks or collectives.
 * Errors are returned; log.h is for messages to people. Only log.c and fork.c may be used on
 * shared objects from several threads; everything else works on the caller's own objects. */
#ifndef TT_BASE_H
#define TT_BASE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <tutti/types.h>

#define countof(a) (sizeof(a) / sizeof((a)[0]))
/* Marks what a short call runs through: these functions lie together, so that a rank that gets a
 * shared core back finds them in fewer pages and lines. */
#define TT_HOT __attribute__((hot))

/* ---- errors (err.c) ---- */

/* Fills *err (when not NULL) with the status and the formatted text, cut to fit, and returns the
 * status, so that callers write `return tt_fail(...)`. */
tutti_status tt_fail(struct tutti_error *err, tutti_status status, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* The common case: tt_fail(err, TUTTI_ERR_MEMORY, "out of memory (<what>)"). */
tutti_status tt_fail_memory(struct tutti_error *err, const char *what);
/* Puts "prefix: " before err->text; for callers that know more about where it failed. */
void tt_fail_prefix(struct tutti_error *err, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
const char *tt_status_text(tutti_status status);

#if defined(__clang_analyzer__) && !defined(TT_ERR_IMPLEMENTATION)
/* The analyser sees one file at a time: these macros tell it that a failure is never success. */
#define tt_fail(err, status, ...) \
    (tt_fail(err, status, __VA_ARGS__), (status) != TUTTI_OK ? (status) : TUTTI_ERR_ARG)
#define tt_fail_memory(err, what) (tt_fail_memory(err, what), TUTTI_ERR_MEMORY)
#endif

/* ---- data types (types.c) ---- */
bool tt_dtype_is_opaque(tutti_dtype d);
bool tt_dtype_is_integer(tutti_dtype d);
bool tt_redop_is_logical(tutti_redop op); /* bitwise or logical: for integers only */
bool tt_redop_fits(tutti_redop op, tutti_dtype d);
/* Stands for any reduction of the caller's own, where it does not matter which one. */
#define TT_REDOP_USER TUTTI_REDOP_COUNT

/* ---- memory (mem.c); all return NULL on failure or when n * size overflows ---- */
void *tt_alloc(size_t n, size_t size);             /* uninitialised */
void *tt_zalloc(size_t n, size_t size);            /* zeroed */
void *tt_resize(void *old, size_t n, size_t size); /* like reallocarray */
char *tt_strdup(const char *s);

/* A growable array of equal elements. Zero-initialise it with the element size: struct tt_vec v
 * = {.elem = sizeof(int)}. Pointers into it are valid until the next push. */
struct tt_vec {
    void *data;
    size_t len, cap, elem;
};
/* Appends n elements copied from `items` (NULL: zeroed). Returns the first appended one, or NULL
 * when out of memory (the vector is unchanged then). */
void *tt_vec_push(struct tt_vec *v, const void *items, size_t n);
/* Appends one element without filling it; NULL when out of memory. For hot paths, which append
 * too often for a call each. */
static inline void *tt_vec_room(struct tt_vec *v)
{
    if (v->len == v->cap)
        return tt_vec_push(v, NULL, 1);
    return (char *)v->data + v->elem * v->len++;
}
void *tt_vec_at(const struct tt_vec *v, size_t i); /* asserts i < len */
void tt_vec_free(struct tt_vec *v);                /* usable again afterwards */

/* ---- strings (str.c) ---- */

/* A growable string. Errors are sticky (`failed`), so that callers check once at the end. `s` is
 * NULL before the first addition and always terminated after it. */
struct tt_str {
    char *s;
    size_t len, cap;
    bool failed;
};
void tt_str_printf(struct tt_str *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void tt_str_add(struct tt_str *b, const char *s, size_t n);
void tt_str_free(struct tt_str *b);
bool tt_streq(const char *a, const char *b);
/* Copies a text into cap (at least 4) bytes; one that does not fit ends with "...", after a whole
 * character. */
void tt_str_fit(char *to, size_t cap, const char *from);
/* Bytes (1..4) of the valid UTF-8 character at the beginning of the n bytes at s; 0 when there
 * is none. */
size_t tt_utf8_len(const char *s, size_t n);
/* Names close to `name` (by edit distance) among the n names, as "did you mean ring, bi-ring?",
 * or "" when there are none. Returns buf. */
char *tt_near_matches(const char *name, const char *const *names, size_t n, char *buf, size_t cap);

/* ---- numbers with units (units.c): strict, the whole text must be used, no sign, no locale
 * ---- */

tutti_status tt_parse_u64(const char *text, uint64_t min, uint64_t max, uint64_t *ret,
                          struct tutti_error *err);
/* "64M", "1.5G", "8", "100KB", "100KiB": K/M/G/T are 1024-based, with or without B or iB; the
 * product must be a whole number of bytes. */
tutti_status tt_parse_size(const char *text, uint64_t *ret_bytes, struct tutti_error *err);
/* "10Gbps", "2.5G", "1gbit", "100Mbit" (bits/s) or "16GB/s", "125MB/s" (bytes/s), 10-based;
 * greater than 0 and finite. */
tutti_status tt_parse_rate(const char *text, double *ret_bytes_per_s, struct tutti_error *err);
/* "150ns", "20us", "1.5ms", "30s", "500ps", "0"; to whole picoseconds. */
tutti_status tt_parse_time(const char *text, uint64_t *ret_ps, struct tutti_error *err);
/* The inverses, for people: "64 MiB", "10 Gbit/s", "1.25 us". Return buf. */
char *tt_format_size(uint64_t bytes, char *buf, size_t cap);
char *tt_format_rate(double bytes_per_s, char *buf, size_t cap);
char *tt_format_time(uint64_t ps, char *buf, size_t cap);

/* ---- randomness, hashes, clock (rand.c) ---- */

/* xoshiro256**, seeded by splitmix64: the same numbers on every machine. Not for secrets. */
struct tt_rng {
    uint64_t s[4];
};
void tt_rng_seed(struct tt_rng *r, uint64_t seed);
uint64_t tt_rng_next(struct tt_rng *r);
uint64_t tt_rng_below(struct tt_rng *r, uint64_t n); /* uniform in [0, n), n > 0 */
uint64_t tt_entropy(void);                           /* from the kernel (getrandom) */
uint64_t tt_mix64(uint64_t x);                       /* bijective mixer */
uint64_t tt_hash_bytes(uint64_t seed, const void *p, size_t n);
uint64_t tt_now_ns(void); /* CLOCK_MONOTONIC */

/* ---- fork (fork.c); all functions may be called by any thread ---- */

/* The number of this process among those forked from each other since the library was loaded. An
 * object remembers the number of the process that made it; in a child it is foreign: it must not
 * be used there, and freeing it is left to the parent. One load, correct also after clone(2).
 * Objects that a child makes itself are not foreign to it. */
uint32_t tt_fork_generation(void); /* > 0 */
bool tt_fork_foreign(uint32_t generation);
/* Descriptors that a forked child must not keep open: above all sockets, because peers would not
 * see our end. own() registers fd and returns it; it accepts -1, so that it can wrap the call
 * that makes the descriptor. close() is for registered and other ones, and accepts -1. Closing a
 * registered one with close(2) is harmless (fork.c compares inodes). */
int tt_fd_own(int fd);
void tt_fd_close(int fd);

/* ---- diagnosis: one capability of this host, and why it is missing ---- */
struct tt_check {
    const char *name;
    bool ok, needed; /* needed: nothing else can replace it */
    char text[512];
};

/* ceil_log2: the smallest q with 2^q >= n (0 for n <= 1). floor_pow2: the largest power of two
 * <= n (n > 0). */
unsigned tt_ceil_log2(uint64_t n);
uint64_t tt_floor_pow2(uint64_t n);

#endif
