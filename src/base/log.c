/* log.c - one line per message: "tutti 14:03:05.123456 rank 3 warn: text".
 *
 * The state is per process: a level, a descriptor, and whether TUTTI_LOG was set. It is written
 * once, under `lock`, and read as atomics afterwards, so that any thread may log without a lock.
 * Texts may quote names from files, so control characters are replaced: a message is always one
 * line, and one write. */
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { LINE_BYTES = 1024 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool is_set_up;
static _Atomic int written = TT_LOG_WARN; /* the most detailed level that is written */
static _Atomic bool asked;                /* TUTTI_LOG is set */
static _Atomic int target = STDERR_FILENO;

static const char *const names[] = {
#define LOG_NAME(id, name) name,
    TT_LOG_LIST(LOG_NAME)
#undef LOG_NAME
};

/* A variable that is set to "" counts as not set. */
static const char *log_variable(const char *name)
{
    const char *v = getenv(name);
    return v && *v ? v : NULL;
}

static tutti_status read_level(int *ret, struct tutti_error *err)
{
    const char *v = log_variable("TUTTI_LOG");
    for (int i = 0; v && i < TT_LOG_LEVELS; i++) {
        if (!tt_streq(v, names[i]))
            continue;
        *ret = i;
        return TUTTI_OK;
    }
    return v ? tt_fail(err, TUTTI_ERR_ARG,
                       "TUTTI_LOG is '%.40s': none, error, warn, info or debug is expected", v)
             : TUTTI_OK;
}

/* Replaces %r, %h, %p and %% in a file's name. */
static tutti_status name_file(const char *pattern, uint32_t rank, struct tt_str *ret,
                              struct tutti_error *err)
{
    char host[65] = "unknown";
    gethostname(host, sizeof host - 1);
    for (const char *c = pattern; *c; c++) {
        char what = *c == '%' ? *++c : 0;
        if (!what && *c)
            tt_str_add(ret, c, 1);
        else if (what == 'r')
            tt_str_printf(ret, "%" PRIu32, rank);
        else if (what == 'h')
            tt_str_printf(ret, "%s", host);
        else if (what == 'p')
            tt_str_printf(ret, "%ld", (long)getpid());
        else if (what == '%')
            tt_str_add(ret, "%", 1);
        else
            return tt_fail(err, TUTTI_ERR_ARG,
                           "TUTTI_LOG_FILE is '%.200s': after %% r, h, p or %% is expected",
                           pattern);
    }
    return ret->failed ? tt_fail_memory(err, "log file") : TUTTI_OK;
}

/* *ret stays as it is without TUTTI_LOG_FILE. */
static tutti_status open_file(uint32_t rank, int *ret, struct tutti_error *err)
{
    const char *pattern = log_variable("TUTTI_LOG_FILE");
    struct tt_str path = {0};
    if (!pattern)
        return TUTTI_OK;
    tutti_status st = name_file(pattern, rank, &path, err);
    int fd = st ? -1 : open(path.s, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (!st && fd < 0)
        st = tt_fail(err, TUTTI_ERR_IO, "TUTTI_LOG_FILE: cannot write %.300s: %s", path.s,
                     strerror(errno));
    tt_str_free(&path);
    if (!st)
        *ret = fd;
    return st;
}

tutti_status tt_log_setup(uint32_t rank, struct tutti_error *err)
{
    tutti_status st = TUTTI_OK;
    pthread_mutex_lock(&lock);
    if (!is_set_up) {
        int level = TT_LOG_WARN, fd = STDERR_FILENO;
        st = read_level(&level, err);
        if (!st)
            st = open_file(rank, &fd, err);
        if (!st) {
            written = level;
            target = fd;
            asked = log_variable("TUTTI_LOG") != NULL;
            is_set_up = true;
        }
    }
    pthread_mutex_unlock(&lock);
    return st;
}

bool tt_log_wants(enum tt_log_level level)
{
    return level != TT_LOG_NONE && (int)level <= written && (level != TT_LOG_ERROR || asked);
}

/* Time of day in local time, as people compare it with other logs; returns its length. */
static size_t begin_line(enum tt_log_level level, uint32_t rank, char *line)
{
    struct timespec now;
    struct tm t = {0};
    clock_gettime(CLOCK_REALTIME, &now);
    localtime_r(&now.tv_sec, &t);
    int n =
        snprintf(line, LINE_BYTES, "tutti %02d:%02d:%02d.%06ld rank %" PRIu32 " %s: ", t.tm_hour,
                 t.tm_min, t.tm_sec, now.tv_nsec / 1000, rank, names[level]);
    return (size_t)n;
}

void tt_log_write(enum tt_log_level level, uint32_t rank, const char *fmt, ...)
{
    char line[LINE_BYTES + 1];
    va_list ap;
    if (!tt_log_wants(level))
        return;
    size_t at = begin_line(level, rank, line);
    va_start(ap, fmt);
    vsnprintf(line + at, LINE_BYTES - at, fmt, ap);
    va_end(ap);
    size_t n = strlen(line);
    for (size_t i = 0; i < n; i++)
        line[i] = (unsigned char)line[i] < 0x20 || line[i] == 0x7f ? '?' : line[i];
    line[n] = '\n';
    /* A message that cannot be written cannot be reported anywhere either. */
    (void)!write(target, line, n + 1);
}
