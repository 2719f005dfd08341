/* must.h - what a fuzzer demands: says what did not hold, where, and the errno, then ends the run. */
#ifndef TT_FUZZ_MUST_H
#define TT_FUZZ_MUST_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define must(what) ((what) ? (void)0 : must_fail(__FILE__, __LINE__, #what))

static inline void must_fail(const char *file, int line, const char *what)
{
    fprintf(stderr, "%s:%d: this must hold: %s (errno: %s)\n", file, line, what, strerror(errno));
    abort();
}
#endif
