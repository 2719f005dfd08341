/* count_allocations.h - malloc and its kin, counted while `watched` is 1: per thread, or of all threads
 * where COUNT_ALL_THREADS is defined. Include it once per program; sanitizers have their own
 * allocators, under which nothing is counted (COUNTING is not defined). */
#ifndef COUNT_ALLOCATIONS_H
#define COUNT_ALLOCATIONS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>

#ifdef COUNT_ALL_THREADS
static _Atomic int watched;
static _Atomic unsigned allocations;
#else
static _Thread_local volatile int watched;
static _Thread_local volatile unsigned allocations;
#endif

#ifndef TT_SANITIZED
void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t n);

void *malloc(size_t n)
{
    allocations += (unsigned)watched;
    return __libc_malloc(n);
}

void *calloc(size_t n, size_t size)
{
    allocations += (unsigned)watched;
    return __libc_calloc(n, size);
}

void *realloc(void *p, size_t n)
{
    allocations += (unsigned)watched;
    return __libc_realloc(p, n);
}
#define COUNTING
#endif

/* A test: an allocation while `watched` is 1 is counted. */
static inline void counts_allocations(void **state)
{
    (void)state;
#ifdef COUNTING
    void *volatile p;
    watched = 1;
    p = malloc(1);
    watched = 0;
    free(p);
    assert_int_equal(allocations, 1);
#endif
}
#endif
