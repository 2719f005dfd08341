/* elastic.h - what the programs under elastic.py share: lines for it, a clock, numbers that are the
 * same wherever they are computed. */
#ifndef TEST_RUN_ELASTIC_H
#define TEST_RUN_ELASTIC_H

#include <stdint.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

static inline void out(const char *what, int st, const char *why)
{
    printf("%s %d %s\n", what, st, why);
    fflush(stdout);
    _exit(what[0] == 'B' ? 3 : 1);
}

static inline uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static inline uint64_t scramble(uint64_t x)
{
    x *= UINT64_C(0x9e3779b97f4a7c15);
    x ^= x >> 29;
    x *= UINT64_C(0xbf58476d1ce4e5b9);
    return x >> 32;
}
#endif
