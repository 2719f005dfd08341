/* quad.h - inside src/kernel: moves vectors between memory and registers, four at a time (a quad)
 * or one (the edges of walk.h); the same for every data type. Only streaming stores need alignment;
 * bytes outside the range are neither read nor written. */
#ifndef TT_KERNEL_QUAD_H
#define TT_KERNEL_QUAD_H

#include "kernel/level.h"
#include "kernel/vec.h"

#define QUAD_BYTES ((size_t)4 * TT_VEC_BYTES)

/* Four memory vectors: while they are combined, and as they are stored. */
struct quad {
    struct acc a, b, c, d;
};
struct bits {
    vec a, b, c, d;
};

/* the number of sources that a loop is compiled for: any number, or a fixed one of at most MOST */
enum { ANY = 0, MOST = 8 };

/* Copies of the first source pointers: without them the compiler must assume that stores change
 * the caller's array, and would load the pointers again. */
struct sources {
    const char *p[MOST];
};

#ifndef TT_OWN_STREAM
INLINE void vec_stream(char *to, vec v)
{
    memcpy(to, &v, sizeof v);
}

INLINE void stream_fence(void)
{
}
#endif

INLINE const char *source(const struct tt_reduce *r, uint32_t s)
{
    return r->src[s];
}

INLINE struct sources first_sources(const struct tt_reduce *r, uint32_t n)
{
    struct sources s = {{source(r, 0)}};
    s.p[1] = n > 1 ? source(r, 1) : NULL;
    s.p[2] = n > 2 ? source(r, 2) : NULL;
    s.p[3] = n > 3 ? source(r, 3) : NULL;
    s.p[4] = n > 4 ? source(r, 4) : NULL;
    s.p[5] = n > 5 ? source(r, 5) : NULL;
    s.p[6] = n > 6 ? source(r, 6) : NULL;
    s.p[7] = n > 7 ? source(r, 7) : NULL;
    return s;
}

INLINE void quad_store(struct bits v, char *to, bool stream)
{
    if (stream) {
        vec_stream(to, v.a);
        vec_stream(to + TT_VEC_BYTES, v.b);
        vec_stream(to + 2 * TT_VEC_BYTES, v.c);
        vec_stream(to + 3 * TT_VEC_BYTES, v.d);
    } else {
        memcpy(to, &v.a, sizeof v.a);
        memcpy(to + TT_VEC_BYTES, &v.b, sizeof v.b);
        memcpy(to + 2 * TT_VEC_BYTES, &v.c, sizeof v.c);
        memcpy(to + 3 * TT_VEC_BYTES, &v.d, sizeof v.d);
    }
}

#ifndef TT_OWN_PART
/* The shift, in a register, of `size` bytes that begin at byte i of a word in memory. */
INLINE unsigned bit_of(size_t i, size_t size)
{
    return (unsigned)(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? 8 * i : 64 - 8 * (i + size));
}

/* Loads n < 8 bytes into the beginning of a word, by parts of 4, 2 and 1: never beyond the end. */
INLINE uint64_t load_few(const char *from, size_t n)
{
    uint32_t four = 0;
    uint16_t two = 0;
    uint64_t w = 0;
    size_t i = 0;
    if (n & 4) {
        memcpy(&four, from, 4);
        w = (uint64_t)four << bit_of(0, 4);
        i = 4;
    }
    if (n & 2) {
        memcpy(&two, from + i, 2);
        w |= (uint64_t)two << bit_of(i, 2);
        i += 2;
    }
    return n & 1 ? w | (uint64_t)(uint8_t)from[i] << bit_of(i, 1) : w;
}

INLINE void store_few(char *to, uint64_t w, size_t n)
{
    const uint32_t four = (uint32_t)(w >> bit_of(0, 4));
    size_t i = 0;
    if (n & 4) {
        memcpy(to, &four, 4);
        i = 4;
    }
    if (n & 2) {
        const uint16_t two = (uint16_t)(w >> bit_of(i, 2));
        memcpy(to + i, &two, 2);
        i += 2;
    }
    if (n & 1)
        to[i] = (char)(w >> bit_of(i, 1));
}

/* Word i of n bytes; `few` is the last, incomplete word. */
INLINE uint64_t load_word(const char *from, size_t n, size_t i, uint64_t few)
{
    uint64_t w = i == n / 8 ? few : 0;
    if (i < n / 8)
        memcpy(&w, from + 8 * i, 8);
    return w;
}

INLINE void store_word(char *to, size_t n, size_t i, uint64_t w)
{
    if (i < n / 8)
        memcpy(to + 8 * i, &w, 8);
    else if (i == n / 8)
        store_few(to + 8 * i, w, n % 8);
}

/* Loads the first n < TT_VEC_BYTES bytes of a vector; the others are zero. It works by words in
 * registers: assembling the vector in memory would stall the load behind the stores, which is
 * most of the time of a short message. */
INLINE vec load_part(const char *from, size_t n)
{
    const uint64_t few = load_few(from + n / 8 * 8, n % 8);
    vec v = {load_word(from, n, 0, few), load_word(from, n, 1, few)};
#if TT_VEC_BYTES > 16
    v[2] = load_word(from, n, 2, few);
    v[3] = load_word(from, n, 3, few);
#endif
    return v;
}

INLINE void store_part(char *to, vec v, size_t n)
{
    store_word(to, n, 0, v[0]);
    store_word(to, n, 1, v[1]);
#if TT_VEC_BYTES > 16
    store_word(to, n, 2, v[2]);
    store_word(to, n, 3, v[3]);
#endif
}
#endif

/* The same for n <= TT_VEC_BYTES. */
INLINE vec load_upto(const char *from, size_t n)
{
    vec v;
    if (n < TT_VEC_BYTES)
        return load_part(from, n);
    memcpy(&v, from, sizeof v);
    return v;
}

INLINE void store_upto(char *to, vec v, size_t n)
{
    if (n < TT_VEC_BYTES)
        store_part(to, v, n);
    else
        memcpy(to, &v, sizeof v);
}

#endif
