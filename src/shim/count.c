/* count.c - settings, counts of calls taken and forwarded, and the report at MPI_Finalize.
 *
 * The time saved is (MPI's time - Tutti's time) for every call taken, by size. Where there was a
 * choice (colls.c) both were timed on the program's own calls. An all-reduce inside a host is taken
 * without a trial; for those both are timed when the report is made, on buffers of its own. Best
 * times are used on both sides, so waiting for late ranks is in neither. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "shim/shim.h"

enum { ROUNDS = 5, TIMED_MAX = 26 /* 64 MiB */ };

/* Counted by any thread, read at the end: relaxed order is enough. */
static _Atomic uint64_t counts[SHIM_CALLS][SHIM_WHYS], bytes_taken[SHIM_CALLS];

const char *shim_call_name(enum shim_call call)
{
#define CALL_NAME(id, name) name,
    static const char *const names[] = {SHIM_CALL_LIST(CALL_NAME)};
    return names[call];
}

static const char *why_text(enum shim_why why)
{
#define WHY_TEXT(id, text) text,
    static const char *const texts[] = {SHIM_WHY_LIST(WHY_TEXT)};
    return texts[why];
}

static bool is_one(const char *name)
{
    const char *v = getenv(name);
    return v && !strcmp(v, "1");
}

/* Two threads may read the environment at the same time; both store the same values before the
 * release store of `known`. */
const struct shim_settings *shim_settings(void)
{
    static struct shim_settings s;
    static _Atomic bool known;
    if (!atomic_load_explicit(&known, memory_order_acquire)) {
        const char *take = getenv("TUTTI_MPI_TAKE");
        s.report = is_one("TUTTI_MPI_REPORT");
        /* then nothing may depend on time */
        bool all = (take && !strcmp(take, "all")) || is_one("TUTTI_REPRODUCIBLE");
        s.take = take && !strcmp(take, "none") ? SHIM_TAKE_NONE
                 : all                         ? SHIM_TAKE_ALL
                                               : SHIM_TAKE_AUTO;
        atomic_store_explicit(&known, true, memory_order_release);
    }
    return &s;
}

void shim_note(const char *fmt, ...)
{
    char line[640];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    fprintf(stderr, "tutti-mpi: %s\n", line);
}

void shim_count(enum shim_call call, enum shim_why why, size_t bytes)
{
    atomic_fetch_add_explicit(&counts[call][why], 1, memory_order_relaxed);
    if (why == SHIM_TAKEN)
        atomic_fetch_add_explicit(&bytes_taken[call], bytes, memory_order_relaxed);
}

unsigned shim_size_class(size_t bytes)
{
    unsigned k = bytes > 1 ? 63 - (unsigned)__builtin_clzll((unsigned long long)bytes) : 0;
    return k < SHIM_SIZES ? k : SHIM_SIZES - 1;
}

double shim_now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

/* ---- the report ---- */

/* Times an all-reduce of that many bytes, alternately by Tutti and by MPI, ROUNDS times each.
 * Collective in comm; a rank without memory makes all ranks skip it. */
static void time_both(struct shim_comm *c, MPI_Comm comm, size_t bytes, struct shim_trial *t)
{
    int n = (int)(bytes / sizeof(float));
    float *in = calloc((size_t)n + 1, sizeof *in), *out = calloc((size_t)n + 1, sizeof *out);
    int ok = in && out, all = 0;
    PMPI_Allreduce(&ok, &all, 1, MPI_INT, MPI_MIN, comm);
    for (int i = 0; all && i < 2 * ROUNDS; i++) {
        float *best = i % 2 ? &t->mpi_us : &t->ours_us;
        double t0 = shim_now_us();
        if (i % 2)
            PMPI_Allreduce(in, out, n, MPI_FLOAT, MPI_SUM, comm);
        else
            tutti_allreduce(c->tutti, in, out, (size_t)n, TUTTI_F32, TUTTI_SUM);
        float us = (float)(shim_now_us() - t0);
        *best = *best > 0 && *best < us ? *best : us;
    }
    free(in);
    free(out);
}

/* Only all-reduces on MPI_COMM_WORLD can be timed at the end: other communicators may no longer
 * exist. Collective: every rank has taken the same calls, so all time the same sizes. */
static void time_rest(struct shim_comm *world)
{
    for (unsigned k = 2; world && k <= TIMED_MAX; k++) {
        struct shim_trial *t = &world->trial[SHIM_ALLREDUCE][k];
        if (world->taken[SHIM_ALLREDUCE][k] && !(t->mpi_us > 0))
            time_both(world, MPI_COMM_WORLD, (size_t)1 << k, t);
    }
}

/* Sums over communicators that still exist, and over sizes that were timed both ways. */
static double saved_us(const struct shim_comm *first, uint64_t *ret_calls)
{
    double us = 0;
    for (const struct shim_comm *c = first; c; c = c->next)
        for (int call = 0; call < SHIM_CALLS; call++)
            for (int k = 0; k < SHIM_SIZES; k++) {
                const struct shim_trial *t = &c->trial[call][k];
                if (t->mpi_us > 0 && t->ours_us > 0) {
                    us += (double)c->taken[call][k] * (double)(t->mpi_us - t->ours_us);
                    *ret_calls += c->taken[call][k];
                }
            }
    return us;
}

static void print_call(enum shim_call call, uint64_t *taken, uint64_t *forwarded)
{
    uint64_t others = 0;
    for (int why = 1; why < SHIM_WHYS; why++)
        others += counts[call][why];
    *taken += counts[call][SHIM_TAKEN];
    *forwarded += others;
    if (counts[call][SHIM_TAKEN] + others == 0)
        return;
    shim_note("%-24s %10llu taken (%llu bytes), %llu forwarded", shim_call_name(call),
              (unsigned long long)counts[call][SHIM_TAKEN], (unsigned long long)bytes_taken[call],
              (unsigned long long)others);
    for (int why = 1; why < SHIM_WHYS; why++)
        if (counts[call][why])
            shim_note("    %llu: %s", (unsigned long long)counts[call][why],
                      why_text((enum shim_why)why));
}

/* Collective if the report is on, because of the timing; only rank 0 prints. */
void shim_report(void)
{
    uint64_t taken = 0, forwarded = 0, timed = 0;
    int rank = 0;
    if (!shim_settings()->report)
        return;
    struct shim_comm *world = shim_comm_of(MPI_COMM_WORLD);
    time_rest(world && world->tutti ? world : NULL);
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank != 0)
        return;
    for (int call = 0; call < SHIM_CALLS; call++)
        print_call((enum shim_call)call, &taken, &forwarded);
    double us = saved_us(shim_comms_opened(), &timed);
    if (us > -500 && us <= 0) /* would be printed as -0.000 */
        us = 0;
    shim_note("taken %llu, forwarded %llu on rank 0; time saved about %.3f s (%llu calls that were "
              "timed both ways)",
              (unsigned long long)taken, (unsigned long long)forwarded, us / 1e6,
              (unsigned long long)timed);
}
