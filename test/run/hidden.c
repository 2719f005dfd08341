/* Processes whose descriptors others may not open (not dumpable): without a named transport everything goes through TCP and sums are
 * right; shared memory that is asked for by name is refused with the reason. With the path of the tool it starts itself three times. */
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <tutti/tutti.h>
#include <unistd.h>

static void die(const char *what, const char *why)
{
    fprintf(stderr, "FAILED: %s: %s\n", what, why);
    exit(1);
}

/* As an ordinary user has it: root could open them all the same. */
static void start(char *tool, char *self)
{
    char *argv[] = {tool, "run", "-n", "3", "--timeout", "20s", "--", self, NULL};
    prctl(PR_CAPBSET_DROP, CAP_SYS_PTRACE, 0, 0, 0);
    execv(tool, argv);
    die(tool, "cannot be started");
}

int main(int argc, char **argv)
{
    struct tutti_comm *comm, *part;
    struct tutti_error err;
    const char *transport = getenv("TUTTI_TRANSPORT");
    float in = 1, out = 0;
    if (argc > 1)
        start(argv[1], argv[0]);
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    tutti_status st = tutti_comm_open(NULL, &comm, &err);
    if (transport && !strcmp(transport, "shm")) {
        if (!st || !strstr(err.text, "may not open the shared memory of its host") || !strstr(err.text, "use transport tcp"))
            die("shm by name", st ? err.text : "opened");
        return 0;
    }
    if (st || tutti_comm_split(comm, 0, 0, &part, &err))
        die("open", err.text);
    struct tutti_comm *both[] = {comm, part};
    for (int i = 0; i < 2; i++) {
        if (tutti_allreduce(both[i], &in, &out, 1, TUTTI_F32, TUTTI_SUM))
            die("all-reduce", tutti_comm_last_error(both[i])->text);
        if (out != (float)tutti_comm_size(both[i]))
            die("all-reduce", "wrong sum");
    }
    tutti_comm_close(part);
    tutti_comm_close(comm);
    return 0;
}
