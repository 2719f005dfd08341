/* Time to build one rank's slice of a schedule among many ranks, by the public interface. Usage: bench_slice ALGO RANKS [REPEATS | whole]
 * Prints the median over repeats with ranks spread over the whole range, in microseconds; whole: builds all ranks once. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "api/tool.h"

static double now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static int build_whole(uint32_t ranks, const struct tutti_plan_options *o)
{
    struct tutti_schedule *s;
    struct tutti_schedule_info info;
    struct tutti_error err;
    double t0 = now_us();
    if (tutti_schedule_build(NULL, ranks, o, 0, 0, &s, &err)) {
        fprintf(stderr, "bench_slice: %s\n", err.text);
        return 1;
    }
    tutti_schedule_info(s, &info);
    printf("%s, all of %u ranks: %llu ops in %.3f s\n", o->algo, ranks, (unsigned long long)info.ops, (now_us() - t0) / 1e6);
    tutti_schedule_free(s);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        fprintf(stderr, "usage: bench_slice ALGO RANKS [REPEATS]\n");
        return 2;
    }
    uint32_t ranks = (uint32_t)strtoul(argv[2], NULL, 10);
    size_t repeats = argc > 3 ? strtoul(argv[3], NULL, 10) : 101;
    struct tutti_plan_options o = {.size = sizeof o, .count = 25u << 20, .algo = argv[1]};
    if (argc > 3 && !strcmp(argv[3], "whole"))
        return build_whole(ranks, &o);
    double *times = calloc(repeats, sizeof *times);
    uint64_t ops = 0;
    if (!times || !ranks)
        return 2;
    for (size_t i = 0; i < repeats; i++) {
        struct tutti_schedule *s;
        struct tutti_schedule_info info;
        struct tutti_error err;
        uint32_t rank = (uint32_t)((uint64_t)i * 2654435761u % ranks);
        double t0 = now_us();
        if (tutti_schedule_build(NULL, ranks, &o, rank, 1, &s, &err)) {
            fprintf(stderr, "bench_slice: %s\n", err.text);
            return 1;
        }
        times[i] = now_us() - t0;
        tutti_schedule_info(s, &info);
        ops = info.ops;
        tutti_schedule_free(s);
    }
    qsort(times, repeats, sizeof *times, compare);
    printf("%s, one rank of %u: %llu ops, median %.1f us, worst %.1f us of %zu\n", argv[1], ranks, (unsigned long long)ops,
           times[repeats / 2], times[repeats - 1], repeats);
    free(times);
    return 0;
}
