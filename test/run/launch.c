/* launch.c - one rank of a job whose end the launcher has to understand (launch.sh).
 *
 *     launch CASE [NOTE]
 *
 * stop    rank 1 stops in the middle of a loop of all-reduces; the others say the error and exit with 0
 * roots   every rank is the root of its own broadcast, the only call: no call can tell
 * late    rank 1 comes to the end later than the others have patience for, and is well
 * crash   rank 1 dies right after opening; the others say the error of their first call
 * lost    rank 0 sends a message that nobody receives
 * twice   the calls mismatch in a split; then everything is closed
 * abort   rank 0 ends the job with an abort and then writes for longer than the launcher has patience
 * open    opens and closes
 *
 * NOTE is what rank 0 has noted for the launcher before all that. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tutti/tutti.h>

static float in[16], out[16];

static void say(const struct tutti_comm *c)
{
    printf("rank %u: %s\n", tutti_comm_rank(c), tutti_comm_last_error(c)->text);
    fflush(stdout);
}

static void reduce(struct tutti_comm *c, int stops)
{
    for (int i = 0; i < 200; i++) {
        if (stops && i == 50 && tutti_comm_rank(c) == 1)
            kill(getpid(), SIGSTOP);
        if (tutti_allreduce(c, in, out, 16, TUTTI_F32, TUTTI_SUM)) {
            say(c);
            return;
        }
    }
}

static void mismatch_in_split(struct tutti_comm *c)
{
    struct tutti_error err;
    struct tutti_comm *part;
    if (tutti_comm_split(c, 0, 0, &part, &err))
        return;
    if (tutti_allreduce(part, in, out, tutti_comm_rank(c) == 1 ? 8 : 16, TUTTI_F32, TUTTI_SUM) || tutti_barrier(part))
        say(part);
    tutti_comm_close(part);
}

static void note(const char *text)
{
    const char *path = getenv("TUTTI_VERDICT");
    FILE *f = path ? fopen(path, "a") : NULL;
    if (!f)
        return;
    fprintf(f, "%s\n", text);
    fclose(f);
}

static void abort_and_write(struct tutti_comm *c)
{
    if (tutti_comm_rank(c) > 0) {
        while (!tutti_allreduce(c, in, out, 16, TUTTI_F32, TUTTI_SUM))
            ;
        return;
    }
    tutti_comm_abort(c, "converged");
    sleep(5);
    printf("checkpoint written\n");
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "open";
    struct tutti_error err;
    struct tutti_comm *c;
    if (tutti_comm_open(NULL, &c, &err)) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    unsigned rank = tutti_comm_rank(c);
    if (argc > 2 && rank == 0)
        note(argv[2]);
    if (!strcmp(what, "abort"))
        abort_and_write(c);
    if (!strcmp(what, "crash") && rank == 1) {
        signal(SIGSEGV, SIG_DFL); /* sanitizers have a handler of their own */
        kill(getpid(), SIGSEGV);
    }
    if (!strcmp(what, "stop") || !strcmp(what, "crash"))
        reduce(c, !strcmp(what, "stop"));
    if (!strcmp(what, "roots") && tutti_broadcast(c, in, out, 16, TUTTI_F32, rank))
        say(c);
    if (!strcmp(what, "late") && rank == 1)
        sleep(6);
    if (!strcmp(what, "lost") && rank == 0 && tutti_send(c, in, 16, TUTTI_F32, 1))
        say(c);
    if (!strcmp(what, "twice"))
        mismatch_in_split(c);
    tutti_comm_close(c);
    return 0;
}
