/* output.c - files that appear whole or not at all.
 *
 *     open: FILE.XXXXXX (temporary, same directory) --keep--> rename to FILE
 *                                                   --drop, signal--> unlink
 *
 * The signal handler removes unfinished files. It may only use async-signal-safe calls, so it finds
 * their names in static memory. Invariant: every unfinished temporary file
 * is listed in temps[] whenever signals are not blocked. */
#include "cli/output.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* More outputs than any command has. */
enum { SLOTS = 4 };
static char temps[SLOTS][PATH_MAX]; /* names of unfinished files; "": slot is free */
/* Standard error is a terminal; asked in advance, because isatty is not for handlers. */
static bool terminal;
static const int guarded[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE};
enum { NGUARDED = sizeof guarded / sizeof guarded[0] };

/* The handler. Only unlink, write and _exit, which are async-signal-safe. */
static void end_at_once(int sig)
{
    for (int i = 0; i < SLOTS; i++)
        if (temps[i][0])
            unlink(temps[i]);
    ssize_t wrote = terminal ? write(STDERR_FILENO, "\n", 1) : 0; /* leave the progress line */
    (void)wrote;
    _exit(128 + sig);
}

void cli_output_guard(void)
{
    struct sigaction now = {.sa_handler = end_at_once}, before;
    terminal = isatty(STDERR_FILENO);
    sigemptyset(&now.sa_mask);
    for (int i = 0; i < NGUARDED; i++)
        sigaddset(&now.sa_mask, guarded[i]);
    /* A signal that the caller ignores (nohup) stays ignored. */
    for (int i = 0; i < NGUARDED; i++)
        if (sigaction(guarded[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN)
            sigaction(guarded[i], &now, NULL);
}

/* Blocks the guarded signals; *before is the mask to restore. */
static void block(sigset_t *before)
{
    sigset_t all;
    sigemptyset(&all);
    for (int i = 0; i < NGUARDED; i++)
        sigaddset(&all, guarded[i]);
    sigprocmask(SIG_BLOCK, &all, before);
}

/* -1: all slots are taken. */
static int free_slot(void)
{
    for (int i = 0; i < SLOTS; i++)
        if (!temps[i][0])
            return i;
    return -1;
}

/* The mode that fopen would give the file: that of the file it replaces, else 0666 less the
 * umask. mkstemp makes files that only the owner reads. */
static mode_t mode_of(const char *path)
{
    struct stat st;
    mode_t mask = umask(0);
    umask(mask);
    return stat(path, &st) == 0 ? st.st_mode & 0777 : 0666 & ~mask;
}

/* Makes the temporary file and enters its name in temps[], with signals blocked in between:
 * there is no moment at which the file exists and the handler does not know it. errno is that of
 * the failure. */
static FILE *make_temp(struct cli_output *o)
{
    sigset_t before;
    FILE *f = NULL;
    block(&before);
    o->slot = free_slot();
    int fd = o->slot < 0 ? -1 : mkstemp(o->temp);
    if (fd >= 0 && fchmod(fd, mode_of(o->path)) == 0 && (f = fdopen(fd, "w")))
        memcpy(temps[o->slot], o->temp, sizeof o->temp);
    int saved = errno;
    if (fd >= 0 && !f) {
        close(fd);
        unlink(o->temp);
    }
    sigprocmask(SIG_SETMASK, &before, NULL);
    errno = saved;
    return f;
}

/* Sets both names. A symbolic link stays one: the file that it points to is replaced. False: a
 * name does not fit. */
static bool take_names(struct cli_output *o, const char *path)
{
    char real[PATH_MAX];
    const char *target = realpath(path, real) ? real : path;
    return snprintf(o->path, sizeof o->path, "%s", target) < (int)sizeof o->path &&
           snprintf(o->temp, sizeof o->temp, "%s.XXXXXX", target) < (int)sizeof o->temp;
}

/* A regular or new file gets a temporary one beside it. */
static FILE *open_named(struct cli_output *o, const char *path)
{
    struct stat st;
    if (!take_names(o, path)) {
        errno = ENAMETOOLONG;
        return NULL;
    }
    /* A device or a pipe cannot be replaced by rename: it is written directly. */
    if (stat(o->path, &st) == 0 && !S_ISREG(st.st_mode))
        return fopen(o->path, "w");
    return make_temp(o);
}

int cli_output_open(const struct cli_args *a, const char *option, struct cli_output *ret)
{
    const char *path = cli_value(a, option);
    *ret = (struct cli_output){.option = option, .slot = -1};
    if (!path)
        return 0;
    ret->f = strcmp(path, "-") ? open_named(ret, path) : stdout;
    return ret->f ? 0 : cli_bad(a, "--%s: cannot write %s: %s", option, path, strerror(errno));
}

/* Frees the slot; after that the handler leaves the file alone. */
static void output_release(struct cli_output *o)
{
    if (o->slot >= 0)
        temps[o->slot][0] = '\0';
    o->slot = -1;
    o->f = NULL;
}

int cli_output_keep(const struct cli_args *a, struct cli_output *o)
{
    /* cli_finish checks standard output for all commands. */
    if (!o->f || o->f == stdout) {
        o->f = NULL;
        return 0;
    }
    bool bad = fflush(o->f) != 0 || ferror(o->f);
    int why = errno;
    /* fclose must be called in any case; the errno of the first failure is reported. */
    bad = (fclose(o->f) != 0 && !bad && (why = errno, true)) || bad;
    if (o->slot >= 0 && !bad && rename(o->temp, o->path) != 0) {
        bad = true;
        why = errno;
    }
    if (o->slot >= 0 && bad)
        unlink(o->temp);
    output_release(o);
    return bad ? cli_bad(a, "--%s: cannot write %s: %s", o->option, o->path, strerror(why)) : 0;
}

void cli_output_drop(struct cli_output *o)
{
    if (!o->f || o->f == stdout)
        return;
    fclose(o->f);
    if (o->slot >= 0)
        unlink(o->temp);
    output_release(o);
}

void cli_put_json_text(FILE *out, const char *text)
{
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        if (c < 0x20)
            fprintf(out, "\\u%04x", c);
        else if (c == '"' || c == '\\')
            fprintf(out, "\\%c", c);
        else
            fputc(c, out);
    }
}
