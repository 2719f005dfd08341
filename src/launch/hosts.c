/* hosts.c - ranks on several machines, started through ssh.
 *
 * What runs on the other machine:
 *
 *     sshd -- login shell -> sh (outer): takes the key from standard input into an unnamed file
 *                             '-- sh (inner) -> becomes PROGRAM, its standard input from /dev/null
 *                                  '-- watcher: reads signal names from standard input and sends
 *                                      them on; at its end, ends PROGRAM
 *
 * The key never stands in a command line. Standard input stays open as long as the launcher
 * lives: its end, or the end of the connection, ends the program, which sshd by itself would
 * leave running. The program is the foreground command of its shell, because shells let
 * background commands ignore SIGINT. Only files that both machines have (the program, its
 * directory) are used; nothing is copied. */
#include "launch/hosts.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

/* $1 is the directory, $2 the text of `inner`, the rest the program. Descriptor 4 is the key
 * (its file is unlinked at once), descriptor 3 the standard input that carries signals. */
static const char outer[] = "IFS= read -r k && f=$(mktemp \"${TMPDIR:-/tmp}/tutti-key-XXXXXX\") && "
                            "exec 4<>\"$f\" && rm -f \"$f\" || exit 255\n"
                            "printf '%s\\n' \"$k\" >&4 || exit 255\n"
                            "unset k\n"
                            "cd -- \"$1\" 2>/dev/null\n"
                            "inner=$2\n"
                            "shift 2\n"
                            "export TUTTI_KEY_FILE=/proc/$$/fd/4\n"
                            "exec 3<&0\n"
                            "sh -c \"$inner\" sh \"$@\"\n"
                            "exit $?";
/* The watcher inherits $$, the shell's pid, which `exec` turns into the program's pid. At the
 * end of its input it sends SIGTERM, and SIGKILL two seconds later. */
static const char inner[] = "{ while read -r s; do kill -s \"$s\" $$; done; kill $$; sleep 2; kill "
                            "-s KILL $$; } <&3 3<&- 4<&- >/dev/null 2>&1 &\n"
                            "exec \"$@\" </dev/null 3<&- 4<&-";

static bool is_here(const char *name)
{
    char own[256] = "";
    gethostname(own, sizeof own - 1);
    return !strcmp(name, "localhost") || !strcmp(name, "127.0.0.1") || !strcmp(name, own);
}

/* A name that ssh cannot take for an option or a command: no leading "-", no special characters. */
static bool is_plain(const char *name)
{
    return *name && *name != '-' &&
           name[strspn(name,
                       "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_@")] == 0;
}

/* Adds one host, "name" or "name:slots". `where` is for complaints: the option and its value, or
 * the file and line. h keeps a pointer into text. */
static int add_host(const struct cli_args *a, const char *where, char *text, const char *slots,
                    struct launch_hosts *h)
{
    char *colon = strchr(text, ':');
    uint64_t n = 1;
    struct tutti_error err;
    if (colon && !slots) {
        *colon = '\0';
        slots = colon + 1;
    }
    if (h->count == RUN_MAX_HOSTS)
        return cli_bad(a, "%s: more than %d hosts", where, RUN_MAX_HOSTS);
    if (!is_plain(text))
        return cli_bad(a, "%s: '%.80s' is not a host name", where, text);
    if (slots && tutti_parse_u64(slots, 1, CLI_MAX_RANKS, &n, &err))
        return cli_bad(a, "%s: slots of %.80s: %s", where, text, err.text);
    h->slotted = h->slotted || slots;
    h->slots[h->count] = (uint32_t)n;
    h->names[h->count++] = is_here(text) ? NULL : text;
    return 0;
}

static int read_list(const struct cli_args *a, const char *list, struct launch_hosts *h)
{
    char where[128];
    int code = 0;
    h->text = strdup(list);
    snprintf(where, sizeof where, "--hosts %.100s", list);
    if (!h->text)
        return cli_bad(a, "out of memory");
    for (char *at = h->text, *name; !code && (name = strsep(&at, ","));)
        code = add_host(a, where, name, NULL, h);
    return code;
}

/* A line of a hostfile: "name", "name:4" or "name slots=4"; "#" begins a comment. Empty lines
 * are fine. */
static int read_line(const struct cli_args *a, const char *where, char *line,
                     struct launch_hosts *h)
{
    char *save = NULL, *name, *more, *rest;
    line[strcspn(line, "#")] = '\0';
    name = strtok_r(line, " \t\r", &save);
    more = name ? strtok_r(NULL, " \t\r", &save) : NULL;
    rest = more ? strtok_r(NULL, " \t\r", &save) : NULL;
    if (!name)
        return 0;
    if (rest || (more && (strncmp(more, "slots=", 6) || strchr(name, ':'))))
        return cli_bad(a, "%s: '%.80s': a line is a host, host:4 or host slots=4", where,
                       rest ? rest : more);
    return add_host(a, where, name, more ? more + 6 : NULL, h);
}

static int read_file(const struct cli_args *a, const char *path, struct launch_hosts *h)
{
    char where[300];
    size_t len = 0;
    int code = 0;
    FILE *in = fopen(path, "r");
    if (!in)
        return cli_bad(a, "--hostfile %.200s: %s", path, strerror(errno));
    ssize_t n = getdelim(&h->text, &len, '\0', in);
    bool failed = n < 0 && ferror(in);
    fclose(in);
    if (failed)
        return cli_bad(a, "--hostfile %.200s cannot be read", path);
    unsigned number = 1;
    for (char *at = n > 0 ? h->text : NULL, *line; !code && (line = strsep(&at, "\n")); number++) {
        snprintf(where, sizeof where, "%.200s:%u", path, number);
        code = read_line(a, where, line, h);
    }
    return code || h->count ? code : cli_bad(a, "--hostfile %.200s names no host", path);
}

int launch_hosts_open(const struct cli_args *a, struct launch_hosts *ret)
{
    struct launch_hosts h = {0};
    const char *list = cli_value(a, "hosts"), *file = cli_value(a, "hostfile");
    int code;
    if (list && file)
        return cli_bad(a, "--hosts and --hostfile: only one of them");
    code = file ? read_file(a, file, &h) : read_list(a, list ? list : "localhost", &h);
    if (code)
        free(h.text);
    else
        *ret = h;
    return code;
}

uint64_t launch_slots(const struct launch_hosts *h)
{
    uint64_t n = 0;
    for (size_t i = 0; i < h->count; i++)
        n += h->slots[i];
    return n;
}

void launch_hosts_close(struct launch_hosts *h)
{
    free(h->text);
    *h = (struct launch_hosts){0};
}

/* Slotted: `end` is the first rank after host i. Otherwise host i has ranks [i * size / count,
 * ...). */
const char *launch_host_of(const struct launch_hosts *h, uint32_t rank, uint32_t size)
{
    size_t i = 0;
    if (h->slotted)
        for (uint64_t end = h->slots[0]; i + 1 < h->count && end <= rank; end += h->slots[i])
            i++;
    else
        while (i + 1 < h->count && (uint64_t)(i + 1) * size / h->count <= rank)
            i++;
    return h->names[i];
}

static bool same_host(const char *x, const char *y)
{
    return x && y ? !strcmp(x, y) : x == y;
}

struct launch_place launch_place_of(const struct launch_hosts *h, uint32_t rank, uint32_t size)
{
    struct launch_place p = {.rank = rank};
    const char *own = launch_host_of(h, rank, size);
    for (uint32_t r = 0; r < size; r++) {
        bool here = same_host(launch_host_of(h, r, size), own);
        p.local_rank += here && r < rank;
        p.local_size += here;
    }
    return p;
}

/* Our own address on the route to that host: that of a UDP socket "connected" to it. */
static bool find_own_address(const char *host, struct in_addr *ret)
{
    struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_DGRAM}, *found = NULL;
    struct sockaddr_in own = {0};
    socklen_t len = sizeof own;
    char name[256];
    launch_host_name(host, name, sizeof name);
    if (getaddrinfo(name, "9", &hints, &found))
        return false;
    /* connecting a datagram socket sends nothing */
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool ok = fd >= 0 && !connect(fd, found->ai_addr, found->ai_addrlen) &&
              !getsockname(fd, (struct sockaddr *)&own, &len);
    freeaddrinfo(found);
    if (fd >= 0)
        close(fd);
    *ret = own.sin_addr;
    return ok;
}

/* Ports on another machine cannot be asked for. Any pair below the range from which kernels hand
 * out ports is likely to be free. */
static void guess_ports(struct launch_job *job)
{
    uint16_t x = 0;
    if (getrandom(&x, sizeof x, GRND_NONBLOCK) != sizeof x)
        x = (uint16_t)getpid();
    job->port = (uint16_t)(20000 + x % 5000 * 2);
    job->torch_port = (uint16_t)(job->port + 1);
}

/* Three cases: rank 0 on another machine (its name, guessed ports); rank 0 here and others
 * elsewhere (our address towards them); all here (loopback). */
int launch_find_meeting(const struct cli_args *a, const struct launch_hosts *h,
                        struct launch_job *job)
{
    struct in_addr at = {htonl(INADDR_LOOPBACK)};
    const char *first = launch_host_of(h, 0, job->size), *far = NULL;
    for (uint32_t r = 0; r < job->size && !far; r++)
        far = launch_host_of(h, r, job->size);
    if (first) {
        launch_host_name(first, job->address, sizeof job->address);
        guess_ports(job);
        return 0;
    }
    if (far && !find_own_address(far, &at))
        return cli_bad(
            a, "this machine's address towards %s cannot be found: is that name known here?", far);
    inet_ntop(AF_INET, &at, job->address, sizeof job->address);
    return launch_job_find_ports(job, at) ? 0 : cli_bad(a, "no free port at %s", job->address);
}

/* Quotes one word for a POSIX shell. */
static void put_word(FILE *out, const char *word)
{
    fputs(" '", out);
    for (; *word; word++) {
        if (*word == '\'')
            fputs("'\\''", out);
        else
            fputc(*word, out);
    }
    fputc('\'', out);
}

/* The command line for the login shell of the other machine. NULL: out of memory. */
static char *remote_command(char *const *variables, char *const *program)
{
    char *text = NULL, *dir = getcwd(NULL, 0);
    size_t len;
    FILE *out = open_memstream(&text, &len);
    if (out) {
        fputs("exec env", out);
        for (; *variables; variables++)
            put_word(out, *variables);
        fputs(" sh -c", out);
        put_word(out, outer);
        fputs(" sh", out);
        put_word(out, dir ? dir : "/");
        put_word(out, inner);
        for (; *program; program++)
            put_word(out, *program);
        if (fclose(out)) {
            free(text);
            text = NULL;
        }
    }
    free(dir);
    return text;
}

char **launch_remote_argv(const struct launch_job *job, const struct launch_place *place,
                          const char *host, char *const *program)
{
    const char *const ssh[] = {"ssh", "-T", "-o", "BatchMode=yes", host};
    enum { WORDS = sizeof ssh / sizeof ssh[0] };
    char **variables = launch_job_variables(job, place, true),
         **argv = calloc(WORDS + 2, sizeof *argv);
    bool ok = variables && argv;
    for (size_t i = 0; ok && i < WORDS; i++)
        ok = (argv[i] = strdup(ssh[i]));
    ok = ok && (argv[WORDS] = remote_command(variables, program));
    launch_job_free_list(variables);
    if (ok)
        return argv;
    launch_job_free_list(argv);
    return NULL;
}
