/* shrink.c - going on after failures, with real processes: shrink RANKS CASE [ROUNDS].
 *
 * The parent starts the ranks itself, because a launcher would end the job. Each rank adds vectors
 * until it has seen enough rounds; when a call fails it shrinks and goes on. After each change the
 * members tell each other who they were at first. The parent compares: all survivors have the same
 * members and sums, and nobody is missing who did not fail. What happens is the case:
 *
 *     abort   rank 1 ends the communicator with tutti_comm_abort: all go on
 *     last, first, two, most   these ranks die in a call: the last, rank 0, ranks 0 and 1, all but
 *             the last
 *     chain   rank 0 dies, rank 1 dies before it shrinks, rank 2 dies some time during it
 *     again   rank 0 dies, later the lowest of those who are left, until two are left
 *     stop    rank 1 is stopped until the others have gone on: it must be told that it is out
 *     late    rank 1 shrinks only when the others have gone on without it */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <tutti/tutti.h>
#include <unistd.h>

enum { RANKS = 16, COUNT = 5000, STEP = 4 };

static const char *what;
static unsigned first, ranks; /* this process's number at first, and how many there were */

static int is(const char *name)
{
    return strcmp(what, name) == 0;
}

static void die(int sig)
{
    (void)sig;
    kill(getpid(), SIGKILL);
}

static void fail(const char *where, const char *why)
{
    printf("BAD rank %u: %s: %s\n", first, where, why);
    fflush(stdout);
    _exit(3);
}

/* ---- a rank ---- */

/* Does this rank fail in this round? `rank`: what it is called now. */
static void strike(struct tutti_comm *c, unsigned round, unsigned rank, unsigned size)
{
    unsigned changes = tutti_comm_changes(c);
    if (round == STEP && changes == 0) {
        if ((is("last") && first == ranks - 1) || (is("first") && first == 0) || (is("two") && first < 2) ||
            (is("most") && first < ranks - 1) || (is("chain") && first == 0))
            die(0);
        if (is("abort") && first == 1)
            tutti_comm_abort(c, "the test says so");
        if (is("stop") && first == 1)
            raise(SIGSTOP);
        if (is("late") && first == 1) {
            char go;
            if (read(0, &go, 1) < 0)
                fail("late", "no word");
        }
    }
    if (is("again") && round >= STEP * (changes + 1) && rank == 0 && size > 2)
        die(0);
}

/* Who is here, by their first numbers; also checks that everybody has the same. A round may have
 * ended for some ranks and failed for others: all go on from the last one. */
static void tell_members(struct tutti_comm *c, unsigned *round)
{
    unsigned size = tutti_comm_size(c), mine[3] = {first, tutti_comm_changes(c), *round};
    unsigned all[3 * RANKS];
    struct tutti_comm *part;
    struct tutti_error err;
    if (tutti_all_gather(c, mine, all, 3, TUTTI_U32))
        return; /* somebody died: there will be another change */
    printf("MEMBERS %u:", tutti_comm_changes(c));
    for (unsigned r = 0; r < size; r++) {
        printf(" %u", all[3 * r]);
        *round = all[3 * r + 2] > *round ? all[3 * r + 2] : *round;
        if (all[3 * r + 1] != mine[1])
            fail("members", "another number of changes");
    }
    printf("\n");
    fflush(stdout);
    if (tutti_comm_split(c, 0, -(int)first, &part, &err) == TUTTI_OK)
        tutti_comm_close(part);
}

static tutti_status add(struct tutti_comm *c)
{
    static float in[COUNT], out[COUNT];
    unsigned size = tutti_comm_size(c), rank = tutti_comm_rank(c);
    for (unsigned i = 0; i < COUNT; i++)
        in[i] = (float)(rank + 1);
    tutti_status st = tutti_allreduce(c, in, out, COUNT, TUTTI_F32, TUTTI_SUM);
    for (unsigned i = 0; !st && i < COUNT; i++)
        if (out[i] != (float)(size * (size + 1) / 2))
            fail("sum", "wrong");
    return st;
}

static void shrink(struct tutti_comm **c, unsigned *round)
{
    struct tutti_comm *next = NULL;
    struct tutti_error err = {0};
    if (is("chain") && first == 1)
        die(0);
    if (is("chain") && first == 2) {
        signal(SIGALRM, die);
        setitimer(ITIMER_REAL, &(struct itimerval){.it_value.tv_usec = 200 + rand() % 30000}, NULL);
    }
    tutti_status st = tutti_comm_shrink(*c, &next, &err);
    if (is("chain") && first == 2)
        die(0);
    tutti_comm_close(*c);
    *c = next;
    if (st) {
        printf("OUT %d %s\n", st, err.text);
        fflush(stdout);
        exit(0);
    }
    tell_members(next, round);
}

static void live(unsigned rounds)
{
    struct tutti_comm *c;
    struct tutti_error err;
    char *text;
    if (tutti_comm_open(NULL, &c, &err))
        fail("open", err.text);
    srand((unsigned)getpid());
    for (unsigned round = 0; round < rounds; round++) {
        strike(c, round, tutti_comm_rank(c), tutti_comm_size(c));
        if (add(c))
            shrink(&c, &round);
    }
    if (tutti_comm_report(c, &text, &err))
        fail("report", err.text);
    if (tutti_comm_changes(c) && !strstr(text, "change 1: "))
        fail("report", text);
    free(text);
    printf("END %u %u\n", tutti_comm_size(c), tutti_comm_changes(c));
    fflush(stdout);
    tutti_comm_close(c);
}

/* ---- the parent ---- */

struct child {
    pid_t pid;
    int out, in, status;
    char text[8192];
    size_t len;
};
static struct child kids[RANKS];

static void start(char **argv, unsigned r, unsigned port)
{
    int out[2], in[2];
    char number[32];
    if (pipe(out) || pipe(in))
        exit(2);
    kids[r].pid = fork();
    if (kids[r].pid == 0) {
        dup2(in[0], 0);
        dup2(out[1], 1);
        for (int fd = 3; fd < 256; fd++)
            close(fd);
        snprintf(number, sizeof number, "%u", r);
        setenv("TUTTI_RANK", number, 1);
        setenv("TUTTI_LOCAL_RANK", number, 1);
        snprintf(number, sizeof number, "%u", ranks);
        setenv("TUTTI_SIZE", number, 1);
        snprintf(number, sizeof number, "127.0.0.1:%u", port);
        setenv("TUTTI_RENDEZVOUS", number, 1);
        setenv("SHRINK_CHILD", "1", 1);
        execv("/proc/self/exe", argv);
        _exit(4);
    }
    close(out[1]);
    close(in[0]);
    kids[r].out = out[0];
    kids[r].in = in[1];
}

/* Reads what the ranks print until all have ended. Rank 1 is let go once rank 0 has new members. */
static void watch(void)
{
    unsigned open = ranks;
    int released = 0;
    while (open) {
        struct pollfd p[RANKS];
        for (unsigned r = 0; r < ranks; r++)
            p[r] = (struct pollfd){.fd = kids[r].out, .events = POLLIN};
        poll(p, ranks, 200);
        for (unsigned r = 0; r < ranks; r++) {
            struct child *k = &kids[r];
            ssize_t n = p[r].revents ? read(k->out, k->text + k->len, sizeof k->text - 1 - k->len) : -1;
            if (n > 0) {
                k->len += (size_t)n;
            } else if (n == 0) {
                close(k->out);
                k->out = -1;
                open--;
            }
        }
        if (!released && strstr(kids[0].text, "MEMBERS")) {
            released = 1;
            kill(kids[1].pid, SIGCONT);
            if (write(kids[1].in, "g", 1) < 0 && errno != EPIPE) /* it may be dead by now */
                fail("write", strerror(errno));
        }
    }
    for (unsigned r = 0; r < ranks; r++)
        waitpid(kids[r].pid, &kids[r].status, 0);
}

/* Must this rank be lost: killed, or told that it is out? */
static int must_fail(unsigned r)
{
    return (is("last") && r == ranks - 1) || (is("first") && r == 0) || (is("two") && r < 2) || (is("most") && r < ranks - 1) ||
           (is("chain") && r < 3) || ((is("stop") || is("late")) && r == 1) || (is("again") && r < ranks - 2);
}

static int judge(void)
{
    const char *last = NULL;
    int bad = 0;
    for (unsigned r = 0; r < ranks; r++) {
        struct child *k = &kids[r];
        char *members = NULL, *end = strstr(k->text, "END");
        for (char *at = k->text; (at = strstr(at, "MEMBERS")); at++)
            members = strchr(at, ':');
        if (members)
            members = strtok(members, "\n");
        if (must_fail(r)) {
            int out = strstr(k->text, "OUT -60") != NULL;
            bad += is("stop") || is("late") ? !out : !WIFSIGNALED(k->status);
        } else {
            bad += !end || !members || k->status != 0 || (last && strcmp(members, last) != 0);
            last = members ? members : last;
        }
    }
    for (unsigned r = 0; bad && r < ranks; r++)
        printf("-- rank %u, status %#x:\n%s\n", r, (unsigned)kids[r].status, kids[r].text);
    printf("%s %u ranks: %s, members%s\n", what, ranks, bad ? "FAILED" : "ok", last ? last : "");
    return bad != 0;
}

int main(int argc, char **argv)
{
    if (argc < 3)
        return 2;
    ranks = (unsigned)atoi(argv[1]);
    what = argv[2];
    if (getenv("SHRINK_CHILD")) {
        first = (unsigned)atoi(getenv("TUTTI_RANK"));
        live(argc > 3 ? (unsigned)atoi(argv[3]) : 40);
        return 0;
    }
    signal(SIGPIPE, SIG_IGN);
    unsigned port = 20000 + (unsigned)getpid() % 12000;
    for (unsigned r = 0; r < ranks; r++)
        start(argv, r, port);
    watch();
    return judge();
}
