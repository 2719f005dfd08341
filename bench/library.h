/* library.h - shared by the benches that load a library by its path and call it by names. */
#ifndef BENCH_LIBRARY_H
#define BENCH_LIBRARY_H

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static inline double now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

/* Ends the program when the library has no such symbol. */
static inline void find_symbol(void *library, const char *name, void *ret)
{
    void *symbol = dlsym(library, name);
    if (!symbol) {
        fprintf(stderr, "%s: %s\n", name, dlerror());
        exit(1);
    }
    memcpy(ret, &symbol, sizeof symbol); /* ISO C has no cast from object to function */
}
#endif
