/* culprit.c - one rank of a job that goes wrong at one rank, in ways that once made others look guilty (culprit.sh).
 *
 *     culprit CASE ODD [US]
 *
 * die, stop   rank ODD ends, or stops, US microseconds after it began to open; the others open, split and open trainers until they hear
 * gone        rank ODD, the lowest, is killed when the last one is about to open its memory in a split
 * root ...    in the third of six requests rank ODD has another root, count, data type, operation, block length or collective
 * close       rank ODD closes after three requests, the others go on; bare: with requests that do not need it
 * late        ranks but the last reduce in a group of their own, to which rank ODD does not come; the last one waits for all in a barrier
 * message     rank ODD does not come to the first message that rank 0 waits for; the others wait in a barrier
 *
 * Prints "rank R STATUS TEXT", and "again" with what the next call answers if that is something else. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <tutti/tutti.h>

enum { COUNT = 10, ROUNDS = 6, WRONG = 2 };
static unsigned delay_us;
static int stops;
static float in[COUNT + 64], out[(COUNT + 64) * 16];

static void *end(void *unused)
{
    (void)unused;
    usleep(delay_us);
    if (stops)
        kill(getpid(), SIGSTOP);
    else
        _exit(0);
    return NULL;
}

static atomic_bool kills; /* whose memory is opened */

#pragma GCC visibility push(default) /* in place of libc's: the library opens its files here */
int open(const char *path, int flags, ...)
{
    int pid;
    if (atomic_load(&kills) && sscanf(path, "/proc/%d/fd/", &pid) == 1 && pid != getppid()) { /* not the launcher */
        usleep(50000); /* it has told by then that it shares its memory, if it has nobody to wait for */
        kill(pid, SIGKILL);
        errno = ENOENT; /* its descriptors end before its connections do */
        return -1;
    }
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags, 0600);
}
#pragma GCC visibility pop

static void say(unsigned rank, tutti_status st, const char *text)
{
    printf("rank %u %d %s\n", rank, st, text);
    fflush(stdout);
}

/* After an error the next call answers the same one. */
static void finish(struct tutti_comm *c, tutti_status st)
{
    char text[504];
    snprintf(text, sizeof text, "%s", tutti_comm_last_error(c)->text);
    say(tutti_comm_rank(c), st, text);
    if (st && (tutti_barrier(c) != st || strcmp(tutti_comm_last_error(c)->text, text) != 0))
        say(tutti_comm_rank(c), st, "again");
    tutti_comm_close(c);
}

/* Opens whatever there is to open, again and again, until something fails. */
static tutti_status open_things(struct tutti_comm *c, struct tutti_error *err)
{
    struct tutti_trainer_options o = {.size = sizeof o, .optimizer = TUTTI_OPTIMIZER_SGD};
    tutti_status st = TUTTI_OK;
    for (int i = 0; !st && i < 100000; i++) {
        struct tutti_comm *half = NULL;
        struct tutti_trainer *t = NULL;
        st = tutti_comm_split(c, (int)tutti_comm_rank(c) % 2, 0, &half, err);
        if (!st)
            tutti_comm_close(half);
        if (!st)
            st = tutti_trainer_open(c, &o, &t, err);
        if (!st)
            tutti_trainer_close(t);
    }
    return st;
}

static tutti_status call(struct tutti_comm *c, const char *name, int odd)
{
    size_t counts[16], n = COUNT;
    if (!strcmp(name, "root"))
        return tutti_reduce(c, in, out, n, TUTTI_F32, TUTTI_SUM, odd ? 1 : 2);
    if (!strcmp(name, "origin"))
        return tutti_broadcast(c, in, out, n, TUTTI_F32, odd ? 1 : 2);
    if (!strcmp(name, "count"))
        return tutti_allreduce(c, in, out, n + (odd ? 1 : 0), TUTTI_F32, TUTTI_SUM);
    if (!strcmp(name, "dtype"))
        return tutti_allreduce(c, in, out, n, odd ? TUTTI_I32 : TUTTI_F32, TUTTI_SUM);
    if (!strcmp(name, "op"))
        return tutti_allreduce(c, in, out, n, TUTTI_F32, odd ? TUTTI_MAX : TUTTI_SUM);
    if (!strcmp(name, "coll"))
        return odd ? tutti_all_gather(c, in, out, n, TUTTI_F32) : tutti_allreduce(c, in, out, n, TUTTI_F32, TUTTI_SUM);
    for (unsigned r = 0; r < 16; r++)
        counts[r] = n + r;
    counts[0] += odd ? 1 : 0;
    return tutti_all_gather_v(c, in, out, counts, TUTTI_F32);
}

static tutti_status go_wrong(struct tutti_comm *c, const char *name, int odd)
{
    tutti_status st = TUTTI_OK;
    for (int i = 0; !st && i < ROUNDS; i++) {
        if (!strcmp(name, "bare"))
            st = odd && i > WRONG ? TUTTI_OK : tutti_broadcast(c, in, out, COUNT, TUTTI_F32, 0);
        else if (!strcmp(name, "close"))
            st = odd && i > WRONG ? TUTTI_OK : tutti_allreduce(c, in, out, COUNT, TUTTI_F32, TUTTI_SUM);
        else
            st = call(c, name, odd && i == WRONG);
    }
    return st || !strcmp(name, "close") || !strcmp(name, "bare") ? st : tutti_barrier(c);
}

static tutti_status be_late(struct tutti_comm *c, int odd, struct tutti_error *err)
{
    int last = tutti_comm_rank(c) + 1 == tutti_comm_size(c);
    struct tutti_comm *group;
    tutti_status st = tutti_comm_split(c, last, 0, &group, err);
    if (st)
        return st;
    if (odd)
        usleep(5000000);
    else if (!last && tutti_allreduce(group, in, out, COUNT, TUTTI_F32, TUTTI_SUM))
        return tutti_barrier(c);
    return tutti_barrier(c);
}

static tutti_status wait_for_message(struct tutti_comm *c, int odd, unsigned peer)
{
    if (odd)
        usleep(5000000);
    else if (tutti_comm_rank(c) == 0)
        return tutti_recv(c, in, COUNT, TUTTI_F32, peer);
    usleep(200000); /* the receiver is in it by then */
    return tutti_barrier(c);
}

int main(int argc, char **argv)
{
    struct tutti_comm *c;
    struct tutti_error err;
    pthread_t thread;
    const char *name = argc > 2 ? argv[1] : "", *me = getenv("TUTTI_RANK");
    if (!*name || !me)
        return 2;
    int odd = !strcmp(me, argv[2]);
    stops = !strcmp(name, "stop");
    delay_us = argc > 3 ? (unsigned)atoi(argv[3]) : 0;
    if (odd && stops) { /* culprit.sh ends it when the others have spoken */
        printf("stops %d\n", (int)getpid());
        fflush(stdout);
    }
    if (odd && (stops || !strcmp(name, "die")) && pthread_create(&thread, NULL, end, NULL))
        return 2;
    tutti_status st = tutti_comm_open(NULL, &c, &err);
    if (st) {
        say((unsigned)atoi(me), st, err.text);
        return 0;
    }
    if (stops || !strcmp(name, "die")) {
        st = open_things(c, &err);
        say((unsigned)atoi(me), st, err.text);
        tutti_comm_close(c);
        return 0;
    }
    if (!strcmp(name, "gone")) {
        struct tutti_comm *child;
        atomic_store(&kills, tutti_comm_rank(c) + 1 == tutti_comm_size(c));
        st = tutti_comm_split(c, 0, 0, &child, &err);
        say((unsigned)atoi(me), st, err.text);
        tutti_comm_close(c);
        return 0;
    }
    if (!strcmp(name, "late"))
        st = be_late(c, odd, &err);
    else if (!strcmp(name, "message"))
        st = wait_for_message(c, odd, (unsigned)atoi(argv[2]));
    else
        st = go_wrong(c, name, odd);
    finish(c, st);
    return 0;
}
