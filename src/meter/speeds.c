/* speeds.c - the figures of earlier openings: $XDG_CACHE_HOME/tutti/speeds, or
 * ~/.cache/tutti/speeds. Rank 0 reads and writes the file.
 *
 *     tutti speeds 3
 *     <key> <time> <shm: bandwidth latency overhead> <tcp: the same> <gamma> <taken>
 *           <memory: box, segment, each point; unused ones are 0> <check>          (one line)
 *
 * There is one line for each network seen lately, the newest first; in bytes/s, picoseconds,
 * femtoseconds per byte. The key is a hash of everything that the figures depend on: rank by rank
 * the host and its address, the transport, the cores, the network namespace. A line is ignored if
 * it is damaged (its check is a hash of the rest) or older than a day (a minute, if other processes
 * used the machine meanwhile), and so is a file of another user. Writers replace the whole file at
 * once, and at worst lose what another one wrote at the same moment. No figure is worth a failure:
 * errors here are ignored. */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cache.h"
#include "meter/meter.h"

enum { ENTRIES = 64, LINE = 1024, FILE_BYTES = 96 << 10, FIGURES = 10 + 4 * TT_MEMORY_POINTS };
static const char HEAD[] = "tutti speeds 3\n";
static const uint64_t DAY_S = 86400, MINUTE_S = 60;
/* No figure is larger, so sums of figures cannot overflow. */
static const uint64_t LARGEST = 1000000000000000;

/* ---- where ---- */

bool tt_meter_speeds_path(char *buf, size_t cap)
{
    return tt_cache_path("speeds", buf, cap);
}

/* ---- lines ---- */

/* One line of the file. */
struct entry {
    uint64_t key, time_s;
    struct tt_speeds speeds;
};

/* Pointers to all figures, in the order of the file; reading and writing share it. */
static void figures(struct tt_speeds *s, uint64_t *ret[FIGURES])
{
    uint64_t *all[] = {
        &s->shm.bw,           &s->shm.latency_ps,      &s->shm.overhead_ps, &s->tcp.bw,
        &s->tcp.latency_ps,   &s->tcp.overhead_ps,     &s->gamma_fs,        &s->taken,
        &s->memory.box_bytes, &s->memory.segment_bytes};
    size_t n = 0;
    for (size_t i = 0; i < countof(all); i++)
        ret[n++] = all[i];
    for (size_t i = 0; i < TT_MEMORY_POINTS; i++) {
        struct tt_memory_point *p = &s->memory.point[i];
        uint64_t *point[] = {&p->bytes, &p->move_ps, &p->own_ps, &p->box_ps};
        for (size_t k = 0; k < countof(point); k++)
            ret[n++] = point[k];
    }
    assert(n == FIGURES);
}

static void write_line(const struct entry *e, char *line)
{
    uint64_t *f[FIGURES];
    struct tt_speeds s = e->speeds;
    figures(&s, f);
    int n = snprintf(line, LINE, "%016" PRIx64 " %" PRIu64, e->key, e->time_s);
    for (int i = 0; i < FIGURES; i++)
        n += snprintf(line + n, (size_t)(LINE - n), " %" PRIu64, *f[i]);
    assert(n > 0 && n + 18 < LINE); /* no figure is larger than LARGEST */
    snprintf(line + n, (size_t)(LINE - n), " %016" PRIx64 "\n", tt_hash_bytes(1, line, (size_t)n));
}

/* A line is valid if writing it again gives the same line. */
static bool read_line(const char *line, struct entry *ret)
{
    struct entry e = {0};
    uint64_t *f[FIGURES];
    char again[LINE];
    int n = 0;
    figures(&e.speeds, f);
    if (sscanf(line, "%16" SCNx64 " %" SCNu64 "%n", &e.key, &e.time_s, &n) != 2)
        return false;
    for (int i = 0, more = 0; i < FIGURES; i++, n += more)
        if (sscanf(line + n, " %" SCNu64 "%n", f[i], &more) != 1 || *f[i] > LARGEST)
            return false;
    write_line(&e, again);
    if (strncmp(line, again, strlen(again)))
        return false;
    while (e.speeds.memory.npoints < TT_MEMORY_POINTS &&
           e.speeds.memory.point[e.speeds.memory.npoints].bytes)
        e.speeds.memory.npoints++;
    *ret = e;
    return true;
}

/* A time in the future, beyond a minute of clock error, is not trusted. */
static bool is_young(const struct entry *e, uint64_t now_s)
{
    uint64_t life_s = e->speeds.taken > TT_TAKEN_MOST ? MINUTE_S : DAY_S;
    return e->time_s <= now_s + 60 && e->time_s + life_s > now_s;
}

/* The contents of the file if it belongs to this user and has our first line; empty otherwise.
 * O_NONBLOCK: a FIFO must not block us. */
static void read_file(const char *path, char *text)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    ssize_t n = 0;
    if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid())
        n = read(fd, text, FILE_BYTES - 1);
    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = '\0';
    if (strncmp(text, HEAD, sizeof HEAD - 1))
        text[0] = '\0';
}

/* Fills ret with the valid young entries, at most ENTRIES; returns how many. */
static size_t read_entries(const char *path, struct entry *ret)
{
    char *text = tt_alloc(FILE_BYTES, 1);
    uint64_t now_s = (uint64_t)time(NULL);
    size_t n = 0;
    if (!text)
        return 0;
    read_file(path, text);
    for (char *line = strchr(text, '\n'); line && n < ENTRIES; line = strchr(line + 1, '\n'))
        if (read_line(line + 1, &ret[n]) && is_young(&ret[n], now_s))
            n++;
    free(text);
    return n;
}

bool tt_meter_speeds_load(uint64_t key, struct tt_speeds *ret)
{
    char path[TT_SPEEDS_PATH];
    struct entry all[ENTRIES];
    size_t n = tt_meter_speeds_path(path, sizeof path) ? read_entries(path, all) : 0;
    for (size_t i = 0; i < n; i++)
        if (all[i].key == key) {
            *ret = all[i].speeds;
            return true;
        }
    return false;
}

struct entries {
    const struct entry *all;
    size_t n;
};

static bool put_entries(FILE *out, const void *ctx)
{
    const struct entries *e = ctx;
    char line[LINE];
    bool ok = fputs(HEAD, out) >= 0;
    for (size_t i = 0; ok && i < e->n; i++) {
        write_line(&e->all[i], line);
        ok = fputs(line, out) >= 0;
    }
    return ok;
}

/* The new entry comes first; an older one with the same key is dropped. */
void tt_meter_speeds_save(uint64_t key, const struct tt_speeds *s)
{
    char path[TT_SPEEDS_PATH];
    struct entry all[ENTRIES + 1] = {{.key = key, .time_s = (uint64_t)time(NULL), .speeds = *s}};
    if (!tt_meter_speeds_path(path, sizeof path))
        return;
    size_t n = read_entries(path, all + 1), kept = 1;
    for (size_t i = 1; i <= n; i++)
        if (all[i].key != key && kept < ENTRIES)
            all[kept++] = all[i];
    tt_cache_write(path, put_entries, &(struct entries){all, kept});
}
