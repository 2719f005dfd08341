/* Parts of a communicator, made by their own ranks and left by each when it has finished: run it with `tutti run`. The root of a broadcast
 * leaves before the others have entered it, and those that only give to a reduction before its root has. Nobody waits, nothing is lost, and
 * descriptors come back. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <tutti/tutti.h>

#include "api/tool.h"

enum { MOST = 64, ROUNDS = 6, LARGEST = 200000 };
static struct tutti_comm *world;
static uint32_t me, size;

static void die(const char *what, const char *why)
{
    fprintf(stderr, "FAILED: rank %u: %s: %s\n", me, what, why);
    exit(1);
}

static void must(tutti_status st, const char *what)
{
    if (st)
        die(what, tutti_comm_last_error(world)->text);
}

static void nap(long ms)
{
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
}

static int descriptors(void)
{
    int n = 0;
    DIR *d = opendir("/proc/self/fd");
    while (d && readdir(d))
        n++;
    closedir(d);
    return n;
}

struct group {
    uint32_t ranks[MOST], n, me;
};

/* Among the ranks of the group only, by messages: each tells all the others in turn. */
static int gather(void *ctx, const void *mine, size_t bytes, void *ret_all)
{
    const struct group *g = ctx;
    char *all = ret_all;
    memcpy(all + g->me * bytes, mine, bytes);
    for (uint32_t from = 0; from < g->n; from++)
        for (uint32_t to = 0; to < g->n; to++) {
            if (to == from)
                continue;
            if (from == g->me)
                must(tutti_send(world, mine, bytes, TUTTI_U8, g->ranks[to]), "send");
            else if (to == g->me)
                must(tutti_recv(world, all + from * bytes, bytes, TUTTI_U8, g->ranks[from]), "receive");
        }
    return 0;
}

static struct tutti_comm *make(struct group *g)
{
    struct tutti_error err;
    struct tutti_comm *part;
    struct tutti_parent parent = {.rank = g->me, .ranks = g->n, .local_rank = -1, .gather = gather, .ctx = g};
    if (tutti_comm_part(world, g->ranks, &parent, &part, &err))
        die("part", err.text);
    if (tutti_comm_rank(part) != g->me || tutti_comm_size(part) != g->n)
        die("part", "another rank or size");
    return part;
}

/* Only one rank is late, and it is needed by nobody. */
static void broadcast(struct tutti_comm *c, const struct group *g, size_t n)
{
    static unsigned char data[LARGEST];
    memset(data, g->me == 0 ? (int)(n % 251) : 0, n);
    if (g->me + 1 == g->n)
        nap(30);
    if (tutti_broadcast(c, data, data, n, TUTTI_U8, 0))
        die("broadcast", tutti_comm_last_error(c)->text);
    for (size_t i = 0; i < n; i++)
        if (data[i] != n % 251)
            die("broadcast", "wrong data");
}

static void reduce(struct tutti_comm *c, const struct group *g, size_t n)
{
    static int in[LARGEST / sizeof(int)], out[LARGEST / sizeof(int)];
    for (size_t i = 0; i < n; i++)
        in[i] = (int)(i + g->me);
    if (g->me == 0)
        nap(30);
    if (tutti_reduce(c, in, out, n, TUTTI_I32, TUTTI_SUM, 0))
        die("reduce", tutti_comm_last_error(c)->text);
    for (size_t i = 0; g->me == 0 && i < n; i++)
        if (out[i] != (int)(i * g->n + g->n * (g->n - 1) / 2))
            die("reduce", "wrong data");
}

static void use(struct group *g, size_t n)
{
    struct tutti_comm *first = make(g), *second = make(g);
    reduce(first, g, n / sizeof(int) + 1);
    broadcast(second, g, n);
    /* In another order on each rank. */
    tutti_comm_leave(me % 2 ? first : second);
    tutti_comm_leave(me % 2 ? second : first);
}

/* All ranks as they are, which has the first id that a part can have; all backwards; every second rank, while the others are elsewhere. */
static struct group forwards(void)
{
    struct group g = {.n = size, .me = me};
    for (uint32_t r = 0; r < size; r++)
        g.ranks[r] = r;
    return g;
}

static struct group backwards(void)
{
    struct group g = {.n = size, .me = size - 1 - me};
    for (uint32_t r = 0; r < size; r++)
        g.ranks[r] = size - 1 - r;
    return g;
}

static struct group every_second(void)
{
    struct group g = {.me = me / 2};
    for (uint32_t r = me % 2; r < size; r += 2)
        g.ranks[g.n++] = r;
    return g;
}

int main(void)
{
    struct tutti_error err;
    static const size_t sizes[] = {1, 5000, 60000, LARGEST - 8};
    if (tutti_comm_open(NULL, &world, &err))
        die("open", err.text);
    me = tutti_comm_rank(world);
    size = tutti_comm_size(world);
    struct group same = forwards(), all = backwards(), half = every_second();
    use(&same, 1000);
    use(&all, 1); /* so that ranks are connected for their messages */
    must(tutti_barrier(world), "barrier");
    nap(300);
    int before = descriptors();
    for (size_t i = 0; i < ROUNDS; i++) {
        use(&all, sizes[i % 4]);
        if (half.n > 1)
            use(&half, sizes[(i + me % 2) % 4]);
    }
    must(tutti_barrier(world), "barrier");
    for (int i = 0; descriptors() > before && i < 100; i++)
        nap(100);
    if (descriptors() > before)
        die("descriptors", "more than before");
    tutti_comm_close(world);
    printf("rank %u: ok\n", me);
    return 0;
}
