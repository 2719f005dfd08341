/* job.c - the variables, ports and key of a started job.
 *
 * Two sets of variables say the same: ours, which boot reads first, and torchrun's, which
 * PyTorch programs expect. The key is new for every job and lives in memory of the launcher,
 * which processes of its user can open by a name under /proc. It is never in an argument or a
 * variable, which other users may see, nor in a file, which a killed launcher would leave
 * behind. */
#include "launch/job.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

extern char **environ;

enum { KEY_BYTES = 32, OWN_VARIABLES = 20 };

const struct cli_option launch_job_options[] = {
    {"elastic", 0, "MIN[..MAX]",
     "a rank that fails does not end the job as long as MIN are left; with MAX it is started "
     "again"},
    {"restarts", 0, "K", "how many times each rank is started again (default 10)"},
    {"prefix", 0, NULL, "put the rank in front of every line of output"},
    {"timeout", 0, "TIME", "deadline of every wait: sets TUTTI_TIMEOUT (default 30s)"},
    {"plan", 0, "FILE", "run this plan where it fits: sets TUTTI_PLAN (may be repeated)"},
    {"tuning", 0, "FILE", "rules that fix algorithms: sets TUTTI_TUNING"},
    {"trace", 0, "FILE", "write what every rank did to FILE: sets TUTTI_TRACE"},
    {"top", 0, NULL, "count calls and bytes for tutti top: sets TUTTI_TOP"},
    {0}};

static int read_timeout(const struct cli_args *a, struct launch_job *j)
{
    struct tutti_error err;
    uint64_t ps = UINT64_C(30000000000000);
    j->timeout = cli_value(a, "timeout");
    const char *text = j->timeout ? j->timeout : cli_environment("TUTTI_TIMEOUT");
    if (text && tutti_parse_time(text, &ps, &err))
        return cli_bad(a, "%s: %s", j->timeout ? "--timeout" : "TUTTI_TIMEOUT", err.text);
    if (!ps)
        return cli_bad(a, "a timeout of 0 would end every wait at once");
    j->timeout_ns = ps / 1000 ? ps / 1000 : 1;
    return 0;
}

/* Joins the files of an option with ":", by their full names, since programs may change their
 * directory. They must exist before ranks are started, unless ranks may run on other hosts. */
static int read_files(const struct cli_args *a, const char *option, char *buf, size_t cap)
{
    size_t len = 0;
    for (size_t i = 0; i < a->nvalues; i++) {
        if (strcmp(a->values[i].option->name, option))
            continue;
        bool elsewhere = cli_value(a, "hosts") || cli_value(a, "hostfile");
        if (!elsewhere && access(a->values[i].value, R_OK))
            return cli_bad(a, "--%s %s: %s", option, a->values[i].value, strerror(errno));
        char *whole = realpath(a->values[i].value, NULL);
        len += (size_t)snprintf(buf + len, cap - len, "%s%s", len ? ":" : "",
                                whole ? whole : a->values[i].value);
        free(whole);
        if (len >= cap)
            return cli_bad(a, "--%s: the names of the files are too long", option);
    }
    return 0;
}

/* A file in memory, with a name under /proc for as long as this process lives: nothing is left
 * however we are killed. Returns -1 with errno. */
static int make_memory(const char *what, char *path, size_t cap)
{
    int fd = memfd_create(what, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd >= 0 && fchmod(fd, 0600)) {
        close(fd);
        return -1;
    }
    if (fd >= 0)
        snprintf(path, cap, "/proc/%d/fd/%d", (int)getpid(), fd);
    return fd;
}

/* The key is sealed, so that no rank can change it. The verdict file stays writable: ranks
 * append. */
static int make_files(const struct cli_args *a, const unsigned char *key, struct launch_job *j)
{
    j->key_fd = make_memory("tutti-key", j->key_file, sizeof j->key_file);
    if (j->key_fd < 0 || write(j->key_fd, key, KEY_BYTES) != KEY_BYTES ||
        fcntl(j->key_fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL))
        return cli_bad(a, "no place for the key of the job: %s", strerror(errno));
    j->verdict_fd = make_memory("tutti-verdict", j->verdict_file, sizeof j->verdict_file);
    return j->verdict_fd < 0
               ? cli_bad(a, "no place for the verdict on the job: %s", strerror(errno))
               : 0;
}

/* MIN, or MIN..MAX: then ranks that fail are started again, and newcomers let in up to MAX. */
static int read_elastic(const struct cli_args *a, struct launch_job *ret)
{
    const char *text = cli_value(a, "elastic"), *dots = text ? strstr(text, "..") : NULL;
    const char *again = cli_value(a, "restarts");
    char first[32];
    struct tutti_error err;
    uint64_t least = 0, most = 0, restarts = 10;
    if (again && !dots)
        return cli_bad(a, "--restarts needs --elastic MIN..MAX");
    if (!text)
        return 0;
    snprintf(first, sizeof first, "%.*s", dots ? (int)(dots - text) : 31, text);
    if (tutti_parse_u64(first, 1, CLI_MAX_RANKS, &least, &err) ||
        (dots && tutti_parse_u64(dots + 2, 1, CLI_MAX_RANKS, &most, &err)))
        return cli_bad(a, "--elastic %s", err.text);
    if (again && tutti_parse_u64(again, 0, 1000, &restarts, &err))
        return cli_bad(a, "--restarts %s", err.text);
    if (least > ret->size)
        return cli_bad(a, "--elastic %llu: the job has %u rank%s", (unsigned long long)least,
                       ret->size, cli_s(ret->size));
    if (dots && most < ret->size)
        return cli_bad(a, "--elastic %s: the job begins with %u ranks", text, ret->size);
    ret->least = (uint32_t)least;
    ret->restarts = dots ? (uint32_t)restarts : 0;
    ret->most = (uint32_t)most;
    return 0;
}

int launch_job_open(const struct cli_args *a, uint32_t size, struct launch_job *ret)
{
    unsigned char key[KEY_BYTES];
    *ret = (struct launch_job){.size = size, .key_fd = -1, .verdict_fd = -1};
    int code = read_timeout(a, ret);
    if (!code)
        code = read_elastic(a, ret);
    ret->trace = cli_value(a, "trace");
    /* Others must be able to join, or this joins others: they share a key that the user made. */
    ret->given_key = cli_environment("TUTTI_KEY_FILE") && !cli_value(a, "hosts") &&
                     !cli_value(a, "hostfile") && (cli_value(a, "join") || cli_value(a, "elastic"));
    ret->top = cli_flag(a, "top");
    if (!code)
        code = read_files(a, "plan", ret->plan, sizeof ret->plan);
    if (!code)
        code = read_files(a, "tuning", ret->tuning, sizeof ret->tuning);
    if (code)
        return code;
    if (getrandom(key, sizeof key, 0) != sizeof key)
        return cli_bad(a, "no random bytes for the key: %s", strerror(errno));
    /* snprintf writes the newline and the 0 after each byte, which the next byte overwrites. */
    for (size_t i = 0; i < sizeof key; i++)
        snprintf(ret->key + 2 * i, 4, "%02x\n", key[i]);
    code = make_files(a, key, ret);
    /* The stack copy is wiped; explicit_bzero is not optimised away. */
    explicit_bzero(key, sizeof key);
    if (code)
        launch_job_close(ret);
    return code;
}

void launch_job_close(struct launch_job *j)
{
    if (j->key_file[0])
        close(j->key_fd);
    if (j->verdict_file[0])
        close(j->verdict_fd);
    explicit_bzero(j->key, sizeof j->key);
    j->key_file[0] = j->verdict_file[0] = 0;
}

/* Binds a socket to a port of the kernel's choice; returns it, or -1 with errno. */
static int take_port(struct in_addr at, uint16_t *ret)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr = at};
    socklen_t len = sizeof in;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    if (bind(fd, (struct sockaddr *)&in, sizeof in) ||
        getsockname(fd, (struct sockaddr *)&in, &len)) {
        close(fd);
        return -1;
    }
    *ret = ntohs(in.sin_port);
    return fd;
}

bool launch_job_find_ports(struct launch_job *j, struct in_addr at)
{
    /* both are open at once: two different ports */
    int first = take_port(at, &j->port), second = take_port(at, &j->torch_port);
    if (first >= 0)
        close(first);
    if (second >= 0)
        close(second);
    return first >= 0 && second >= 0;
}

/* Appends NAME=VALUE to a list that has room for it. False: out of memory. */
__attribute__((format(printf, 2, 3))) static bool add(char **list, const char *fmt, ...)
{
    va_list ap;
    size_t n = 0;
    while (list[n])
        n++;
    va_start(ap, fmt);
    int len = vasprintf(&list[n], fmt, ap);
    va_end(ap);
    if (len < 0)
        list[n] = NULL;
    return len >= 0;
}

static bool add_own(char **v, const struct launch_job *j, const struct launch_place *p)
{
    return add(v, "TUTTI_RANK=%u", p->rank) && add(v, "TUTTI_SIZE=%u", j->size) &&
           add(v, "TUTTI_LOCAL_RANK=%u", p->local_rank) &&
           add(v, "TUTTI_RENDEZVOUS=%s:%u", j->address, j->port) &&
           (!j->timeout || add(v, "TUTTI_TIMEOUT=%s", j->timeout)) &&
           (!*j->plan || add(v, "TUTTI_PLAN=%s", j->plan)) &&
           (!*j->tuning || add(v, "TUTTI_TUNING=%s", j->tuning)) &&
           (!j->trace || add(v, "TUTTI_TRACE=%s", j->trace)) &&
           (!j->join || add(v, "TUTTI_JOIN=%s", j->join)) &&
           (!j->most || add(v, "TUTTI_MAX_RANKS=%u", j->most)) &&
           (!j->top || add(v, "TUTTI_TOP=1"));
}

/* Not for other hosts: there the paths mean nothing. */
static bool add_files(char **v, const struct launch_job *j)
{
    return (j->given_key || add(v, "TUTTI_KEY_FILE=%s", j->key_file)) &&
           add(v, "TUTTI_VERDICT=%s", j->verdict_file);
}

static bool add_torch(char **v, const struct launch_job *j, const struct launch_place *p)
{
    return add(v, "RANK=%u", p->rank) && add(v, "WORLD_SIZE=%u", j->size) &&
           add(v, "LOCAL_RANK=%u", p->local_rank) && add(v, "LOCAL_WORLD_SIZE=%u", p->local_size) &&
           add(v, "MASTER_ADDR=%s", j->address) && add(v, "MASTER_PORT=%u", j->torch_port);
}

/* Does the list have a variable of that name? "NAME=" is compared, including the "=". */
static bool is_in(char *const *list, const char *variable)
{
    size_t name = strcspn(variable, "=") + 1;
    for (; *list; list++)
        if (!strncmp(*list, variable, name))
            return true;
    return false;
}

/* Appends our own environment, except names that the list has already. tutti_only: just the
 * variables of the library, for other hosts. */
static bool add_inherited(char **list, bool tutti_only)
{
    bool ok = true;
    for (char **e = environ; *e && ok; e++) {
        bool wanted =
            !tutti_only || (!strncmp(*e, "TUTTI_", 6) && strncmp(*e, "TUTTI_KEY_FILE=", 15) &&
                            strncmp(*e, "TUTTI_VERDICT=", 14));
        if (wanted && !is_in(list, *e))
            ok = add(list, "%s", *e);
    }
    return ok;
}

/* Room for our own environment and all that we add. */
static char **make_list(void)
{
    size_t n = 0;
    while (environ[n])
        n++;
    return calloc(n + OWN_VARIABLES + 1, sizeof(char *));
}

char **launch_job_variables(const struct launch_job *j, const struct launch_place *place,
                            bool remote)
{
    char **v = make_list();
    if (v && add_own(v, j, place) && add_torch(v, j, place) &&
        (remote ? add_inherited(v, true) : add_files(v, j)))
        return v;
    launch_job_free_list(v);
    return NULL;
}

char **launch_job_environment(const struct launch_job *j, const struct launch_place *place)
{
    char **v = launch_job_variables(j, place, false);
    if (v && !add_inherited(v, false)) {
        launch_job_free_list(v);
        return NULL;
    }
    return v;
}

void launch_job_free_list(char **list)
{
    for (size_t i = 0; list && list[i]; i++)
        free(list[i]);
    free(list);
}
