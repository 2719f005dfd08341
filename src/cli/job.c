/* job.c - the variables, ports and key of a started job.
 *
 * Two sets of variables say the same: ours, which boot reads first, and torchrun's, which PyTorch programs expect. The key is new for every
 * job and lives in a file only its owner can read: never in an argument or a variable, which others may see. */
#include "cli/job.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

extern char **environ;

enum { KEY_BYTES = 32, OWN_VARIABLES = 12 };

const struct cli_option cli_job_options[] = {{"prefix", 0, NULL, "put the rank in front of every line of output"},
                                             {"timeout", 0, "TIME", "deadline of every wait: sets TUTTI_TIMEOUT (default 30s)"},
                                             {0}};

static int read_timeout(const struct cli_args *a, struct cli_job *j)
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

static int write_key(const struct cli_args *a, const unsigned char *key, struct cli_job *j)
{
    const char *dir = cli_environment("TMPDIR");
    size_t len = (size_t)snprintf(j->key_file, sizeof j->key_file, "%s/tutti-key-XXXXXX", dir ? dir : "/tmp");
    int fd = len < sizeof j->key_file ? mkstemp(j->key_file) : -1; /* mode 0600 */
    if (fd < 0) {
        int code = cli_bad(a, "no key file in %s: %s", dir ? dir : "/tmp", strerror(errno));
        j->key_file[0] = 0;
        return code;
    }
    bool ok = write(fd, key, KEY_BYTES) == KEY_BYTES;
    ok = !close(fd) && ok;
    return ok ? 0 : cli_bad(a, "%s could not be written: %s", j->key_file, strerror(errno));
}

int cli_job_open(const struct cli_args *a, uint32_t size, struct cli_job *ret)
{
    unsigned char key[KEY_BYTES];
    *ret = (struct cli_job){.size = size};
    int code = read_timeout(a, ret);
    if (code)
        return code;
    if (getrandom(key, sizeof key, 0) != sizeof key)
        return cli_bad(a, "no random bytes for the key: %s", strerror(errno));
    for (size_t i = 0; i < sizeof key; i++)
        snprintf(ret->key + 2 * i, 4, "%02x\n", key[i]);
    code = write_key(a, key, ret);
    explicit_bzero(key, sizeof key);
    if (code)
        cli_job_close(ret);
    return code;
}

void cli_job_close(struct cli_job *j)
{
    if (j->key_file[0])
        unlink(j->key_file);
    explicit_bzero(j->key, sizeof j->key);
    j->key_file[0] = 0;
}

/* A socket at a port of the kernel's choice; -1 with errno. */
static int take_port(struct in_addr at, uint16_t *ret)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr = at};
    socklen_t len = sizeof in;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    if (bind(fd, (struct sockaddr *)&in, sizeof in) || getsockname(fd, (struct sockaddr *)&in, &len)) {
        close(fd);
        return -1;
    }
    *ret = ntohs(in.sin_port);
    return fd;
}

bool cli_job_find_ports(struct cli_job *j, struct in_addr at)
{
    int first = take_port(at, &j->port), second = take_port(at, &j->torch_port); /* both at once: two different ones */
    if (first >= 0)
        close(first);
    if (second >= 0)
        close(second);
    return first >= 0 && second >= 0;
}

/* Adds NAME=VALUE to a list that has room. False: no memory. */
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

static bool add_own(char **v, const struct cli_job *j, const struct cli_place *p)
{
    return add(v, "TUTTI_RANK=%u", p->rank) && add(v, "TUTTI_SIZE=%u", j->size) && add(v, "TUTTI_LOCAL_RANK=%u", p->local_rank) &&
           add(v, "TUTTI_RENDEZVOUS=%s:%u", j->address, j->port) && (!j->timeout || add(v, "TUTTI_TIMEOUT=%s", j->timeout));
}

static bool add_torch(char **v, const struct cli_job *j, const struct cli_place *p)
{
    return add(v, "RANK=%u", p->rank) && add(v, "WORLD_SIZE=%u", j->size) && add(v, "LOCAL_RANK=%u", p->local_rank) &&
           add(v, "LOCAL_WORLD_SIZE=%u", p->local_size) && add(v, "MASTER_ADDR=%s", j->address) && add(v, "MASTER_PORT=%u", j->torch_port);
}

static bool is_in(char *const *list, const char *variable)
{
    size_t name = strcspn(variable, "=") + 1;
    for (; *list; list++)
        if (!strncmp(*list, variable, name))
            return true;
    return false;
}

/* Adds our own environment as far as `list` does not say otherwise; with `tutti_only` just what concerns the library. */
static bool add_inherited(char **list, bool tutti_only)
{
    bool ok = true;
    for (char **e = environ; *e && ok; e++) {
        bool wanted = !tutti_only || (!strncmp(*e, "TUTTI_", 6) && strncmp(*e, "TUTTI_KEY_FILE=", 15));
        if (wanted && !is_in(list, *e))
            ok = add(list, "%s", *e);
    }
    return ok;
}

static char **make_list(void)
{
    size_t n = 0;
    while (environ[n])
        n++;
    return calloc(n + OWN_VARIABLES + 1, sizeof(char *));
}

char **cli_job_variables(const struct cli_job *j, const struct cli_place *place, bool remote)
{
    char **v = make_list();
    if (v && add_own(v, j, place) && add_torch(v, j, place) && (remote ? add_inherited(v, true) : add(v, "TUTTI_KEY_FILE=%s", j->key_file)))
        return v;
    cli_job_free_list(v);
    return NULL;
}

char **cli_job_environment(const struct cli_job *j, const struct cli_place *place)
{
    char **v = cli_job_variables(j, place, false);
    if (v && !add_inherited(v, false)) {
        cli_job_free_list(v);
        return NULL;
    }
    return v;
}

void cli_job_free_list(char **list)
{
    for (size_t i = 0; list && list[i]; i++)
        free(list[i]);
    free(list);
}
