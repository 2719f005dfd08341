/* What waiting costs: rank 1 enters an all-reduce one second late; rank 0, which is there in time, prints how much of a core its whole
 * process (all threads) used meanwhile, from 10 ms after its call on. A blocking call cannot be asked in between, so a second thread that
 * otherwise sleeps takes the sample at 10 ms.
 *
 * Usage: tutti run -n 2 -- bench_idle [shm|tcp] */
#include <pthread.h>
#include <stdio.h>
#include <sys/resource.h>
#include <time.h>
#include <tutti/tutti.h>

enum { SPIN_MS = 10, LATE_MS = 1000 };

struct sample {
    double cpu_s, wall_s;
};

static struct sample sample(void)
{
    struct rusage use;
    struct timespec t;
    getrusage(RUSAGE_SELF, &use);
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (struct sample){.cpu_s = (double)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) +
                                    (double)(use.ru_utime.tv_usec + use.ru_stime.tv_usec) * 1e-6,
                           .wall_s = (double)t.tv_sec + (double)t.tv_nsec * 1e-9};
}

static void pause_ms(int ms)
{
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L}, NULL);
}

static void *sample_later(void *ctx)
{
    pause_ms(SPIN_MS);
    *(struct sample *)ctx = sample();
    return NULL;
}

static tutti_status reduce(struct tutti_comm *comm, float *data)
{
    return tutti_allreduce(comm, data, data, 1024, TUTTI_F32, TUTTI_SUM);
}

/* Rank 0's side. */
static tutti_status wait_and_tell(struct tutti_comm *comm, float *data)
{
    struct sample before = sample(), spun = before, after;
    pthread_t thread;
    if (pthread_create(&thread, NULL, sample_later, &spun) != 0)
        return TUTTI_ERR_MEMORY;
    tutti_status st = reduce(comm, data);
    after = sample();
    pthread_join(thread, NULL);
    if (!st && after.wall_s - before.wall_s < LATE_MS * 0.9e-3)
        fprintf(stderr, "bench_idle: the late rank was not waited for\n");
    else if (!st)
        printf("{\"waited_s\": %.4f, \"cpu_first_%dms_s\": %.6f, \"cpu_after_s\": %.6f, \"core_share\": %.6f}\n",
               after.wall_s - before.wall_s, SPIN_MS, spun.cpu_s - before.cpu_s, after.cpu_s - spun.cpu_s,
               (after.cpu_s - spun.cpu_s) / (after.wall_s - spun.wall_s));
    return st;
}

int main(int argc, char **argv)
{
    struct tutti_comm_options o = {.size = sizeof o, .transport = argc > 1 ? argv[1] : NULL};
    struct tutti_comm *comm;
    struct tutti_error err;
    static float data[1024];
    if (tutti_comm_open(&o, &comm, &err) != TUTTI_OK) {
        fprintf(stderr, "bench_idle: %s\n", err.text);
        return 1;
    }
    tutti_status st = tutti_comm_size(comm) == 2 ? TUTTI_OK : TUTTI_ERR_RANGE;
    for (int i = 0; !st && i < 10; i++)
        st = reduce(comm, data);
    if (!st && tutti_comm_rank(comm) == 0) {
        st = wait_and_tell(comm, data);
    } else if (!st) {
        pause_ms(LATE_MS);
        st = reduce(comm, data);
    }
    if (st)
        fprintf(stderr, "bench_idle: %s\n", tutti_strerror(st));
    tutti_comm_close(comm);
    return st ? 1 : 0;
}
