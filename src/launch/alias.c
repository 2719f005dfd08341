/* alias.c - the real name of a host of --hosts: aliases of ~/.ssh/config mean nothing to the
 * resolver. `ssh -G NAME` prints the configuration that ssh would use, without connecting. */
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "launch/hosts.h"

extern char **environ;

/* bounded, because a configuration may run commands of its own (Match exec) */
enum { PATIENCE_MS = 5000 };

static int64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Reads until the end of the pipe, or until time or room runs out; buf is always terminated. */
static void read_all(int fd, char *buf, size_t cap)
{
    int64_t until = now_ms() + PATIENCE_MS;
    size_t used = 0;
    struct pollfd p = {.fd = fd, .events = POLLIN};
    while (used + 1 < cap && now_ms() < until && poll(&p, 1, (int)(until - now_ms())) > 0) {
        ssize_t n = read(fd, buf + used, cap - 1 - used);
        if (n <= 0)
            break;
        used += (size_t)n;
    }
    buf[used] = 0;
}

/* The output of ssh -G; "" when there is none. The child is killed after that, whether it has
 * ended or not, and always reaped. */
static void ask_ssh(const char *host, char *buf, size_t cap)
{
    char *const argv[] = {"ssh", "-G", (char *)(uintptr_t)host, NULL};
    posix_spawn_file_actions_t files;
    int ends[2];
    pid_t pid;
    *buf = 0;
    if (pipe(ends))
        return;
    bool made = posix_spawn_file_actions_init(&files) == 0;
    bool ok = made && !posix_spawn_file_actions_addopen(&files, 0, "/dev/null", 0, 0) &&
              !posix_spawn_file_actions_adddup2(&files, ends[1], 1) &&
              !posix_spawn_file_actions_addclose(&files, ends[0]) &&
              !posix_spawn_file_actions_addopen(&files, 2, "/dev/null", 1, 0) &&
              !posix_spawnp(&pid, "ssh", &files, NULL, argv, environ);
    close(ends[1]);
    if (ok) {
        read_all(ends[0], buf, cap);
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
    }
    close(ends[0]);
    if (made)
        posix_spawn_file_actions_destroy(&files);
}

void launch_host_name(const char *host, char *ret, size_t cap)
{
    const char *at = strrchr(host, '@'), *key = "\nhostname ";
    char said[32768];
    ask_ssh(host, said + 1, sizeof said - 1);
    said[0] = '\n'; /* so that the first line matches the key like the others */
    const char *name = strstr(said, key);
    name = name ? name + strlen(key) : NULL;
    size_t len = name ? strcspn(name, "\r\n") : 0;
    if (len && len < cap)
        snprintf(ret, cap, "%.*s", (int)len, name);
    else
        snprintf(ret, cap, "%s", at ? at + 1 : host);
}
