/* multitree_cache.c - grown trees kept on disk: $XDG_CACHE_HOME/tutti/trees/, or ~/.cache/tutti/trees/, a file for each network and
 * options.
 *
 *     "tutti trees 1\n"  hash of the network (8)  ranks (4)  steps (4)  edges (4)  options (4)
 *     step after step:   number of edges, then for each the tree as distance from the one before, and its links
 *     hash of all before (8)
 *
 * Numbers of the second line are variable: 7 bits a byte, the lowest first, the top bit set when more follow; a link is 2 id + 1 when
 * another one of its edge follows, else 2 id. About 4 bytes an edge: 4 MB for 1,024 ranks. Parents, children and steps follow from the
 * links, and are checked while reading: only whole trees of this very network are taken, whatever the file holds. Anything else is as good
 * as no file and will be written again. The number in the first line changes with the construction. Files appear at once (rename); the
 * oldest go when all together exceed LIMIT bytes. Small forests are not kept: they grow faster than a file opens. Nothing here is worth a
 * failure: everything may fail in silence. */
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "algo/multitree.h"

static const char HEAD[14] = {'t', 'u', 't', 't', 'i', ' ', 't', 'r', 'e', 'e', 's', ' ', '1', '\n'};
enum { LIMIT = 64 << 20, KEPT_EDGES = 128 * 127, NAME = 20, CHECK = 8 };
enum { HEADER = sizeof(HEAD) + 8 + 4 * 4 };

static uint32_t option_bits(const struct tt_forest_options *o)
{
    return (uint32_t)o->paper_ending | (uint32_t)o->paper_order << 1 | (uint32_t)o->inward << 2;
}

static bool directory(char *buf, size_t cap)
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int n = -1;
    if (cache && cache[0] == '/')
        n = snprintf(buf, cap, "%s/tutti/trees", cache);
    else if (home && home[0] == '/')
        n = snprintf(buf, cap, "%s/.cache/tutti/trees", home);
    return n > 0 && (size_t)n < cap;
}

bool tt_forest_cache_path(const struct tt_topo *t, const struct tt_forest_options *o, char *buf, size_t cap)
{
    char dir[TT_FOREST_PATH];
    if (!directory(dir, sizeof(dir) - NAME))
        return false;
    int n = snprintf(buf, cap, "%.*s/%016" PRIx64 "-%" PRIu32, (int)(sizeof(dir) - NAME), dir, t->hash, option_bits(o));
    return n > 0 && (size_t)n < cap;
}

/* ---- writing ---- */

struct text {
    struct tt_vec bytes;
    bool failed;
};

static void put(struct text *x, const void *p, size_t n)
{
    x->failed = x->failed || !tt_vec_push(&x->bytes, p, n);
}

static void put_number(struct text *x, uint32_t v)
{
    unsigned char b[5];
    size_t n = 0;
    for (; v >= 128; v >>= 7)
        b[n++] = (unsigned char)(v | 128);
    b[n++] = (unsigned char)v;
    put(x, b, n);
}

static void put_header(struct text *x, const struct tt_topo *t, const struct tt_forest_options *o, const struct tt_forest *f)
{
    uint32_t numbers[4] = {f->ranks, f->steps, f->nedges, option_bits(o)};
    put(x, HEAD, sizeof(HEAD));
    put(x, &t->hash, sizeof(t->hash));
    put(x, numbers, sizeof(numbers));
}

static void put_edges(struct text *x, const struct tt_forest *f)
{
    uint32_t tree = 0;
    for (uint32_t i = 0, end; i < f->nedges; i = end) {
        for (end = i; end < f->nedges && f->edges[end].step == f->edges[i].step;)
            end++;
        put_number(x, end - i);
        for (uint32_t k = i; k < end; k++) {
            put_number(x, (f->edges[k].tree + f->ranks - tree) % f->ranks);
            tree = f->edges[k].tree;
            for (uint32_t j = f->edges[k].path; j < f->edges[k + 1].path; j++)
                put_number(x, 2 * f->links[j] + (j + 1 < f->edges[k + 1].path));
        }
    }
}

/* The three innermost directories, when they are missing. */
static void make_directories(const char *dir)
{
    char path[TT_FOREST_PATH];
    size_t n = strlen(dir), cut[3] = {0};
    for (size_t i = n, k = 0; i-- > 1 && k < 2;)
        if (dir[i] == '/')
            cut[k++] = i;
    for (size_t k = 2; k-- > 0;)
        if (cut[k]) {
            snprintf(path, sizeof(path), "%.*s", (int)cut[k], dir);
            mkdir(path, 0700);
        }
    mkdir(dir, 0700);
}

struct old_file {
    char name[NAME + 16];
    struct timespec time;
    uint64_t bytes;
};

/* Ours, finished or left behind by a writer that died. */
static bool is_ours(const char *name)
{
    return strspn(name, "0123456789abcdef") == 16 && name[16] == '-' && strlen(name) < NAME + 16;
}

static int by_time(const void *pa, const void *pb)
{
    const struct old_file *a = pa, *b = pb;
    if (a->time.tv_sec != b->time.tv_sec)
        return a->time.tv_sec < b->time.tv_sec ? -1 : 1;
    if (a->time.tv_nsec != b->time.tv_nsec)
        return a->time.tv_nsec < b->time.tv_nsec ? -1 : 1;
    return strcmp(a->name, b->name);
}

static struct tt_vec list_files(int dir_fd, DIR *d)
{
    struct tt_vec all = {.elem = sizeof(struct old_file)};
    for (const struct dirent *e = readdir(d); e; e = readdir(d)) {
        struct old_file f = {.bytes = 0};
        struct stat st;
        if (!is_ours(e->d_name) || fstatat(dir_fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) || !S_ISREG(st.st_mode))
            continue;
        snprintf(f.name, sizeof(f.name), "%s", e->d_name);
        f.time = st.st_mtim;
        f.bytes = (uint64_t)st.st_size;
        if (!tt_vec_push(&all, &f, 1))
            break;
    }
    return all;
}

/* Removes the oldest until `more` bytes fit. */
static void make_room(const char *dir, uint64_t more)
{
    DIR *d = opendir(dir);
    if (!d)
        return;
    struct tt_vec all = list_files(dirfd(d), d);
    const struct old_file *f = all.data;
    uint64_t sum = more;
    for (size_t i = 0; i < all.len; i++)
        sum += f[i].bytes;
    if (all.len > 0)
        qsort(all.data, all.len, all.elem, by_time);
    for (size_t i = 0; i < all.len && sum > LIMIT; i++) {
        unlinkat(dirfd(d), f[i].name, 0);
        sum -= f[i].bytes;
    }
    tt_vec_free(&all);
    closedir(d);
}

static void write_file(const char *path, const struct tt_vec *bytes)
{
    char tmp[TT_FOREST_PATH + 8];
    snprintf(tmp, sizeof(tmp), "%s.XXXXXX", path);
    int fd = mkostemp(tmp, O_CLOEXEC); /* mode 0600 */
    FILE *out = fd < 0 ? NULL : fdopen(fd, "w");
    if (!out) {
        if (fd >= 0)
            close(fd);
        return;
    }
    bool ok = fwrite(bytes->data, 1, bytes->len, out) == bytes->len;
    ok = fclose(out) == 0 && ok && rename(tmp, path) == 0;
    if (!ok)
        unlink(tmp);
}

void tt_forest_cache_save(const struct tt_topo *t, const struct tt_forest_options *o, const struct tt_forest *f)
{
    char path[TT_FOREST_PATH], dir[TT_FOREST_PATH];
    struct text x = {.bytes.elem = 1};
    if (!tt_forest_cache_path(t, o, path, sizeof(path)) || !directory(dir, sizeof(dir)))
        return;
    put_header(&x, t, o, f);
    put_edges(&x, f);
    uint64_t check = x.failed ? 0 : tt_hash_bytes(0, x.bytes.data, x.bytes.len);
    put(&x, &check, sizeof(check));
    if (!x.failed && x.bytes.len <= LIMIT / 2) {
        make_directories(dir);
        make_room(dir, x.bytes.len);
        write_file(path, &x.bytes);
    }
    tt_vec_free(&x.bytes);
}

/* ---- reading ---- */

struct reader {
    const unsigned char *at, *end;
    const struct tt_topo *t;
    struct tt_forest f;
    struct tt_vec links;
    uint32_t *joined; /* per tree and rank: step + 2; the root: 1; 0: not a member */
};

static bool get_number(struct reader *r, uint32_t *ret)
{
    uint64_t v = 0;
    for (unsigned shift = 0; shift < 35 && r->at < r->end; shift += 7) {
        v |= (uint64_t)(*r->at & 127) << shift;
        if (!(*r->at++ & 128)) {
            *ret = (uint32_t)v;
            return v <= UINT32_MAX;
        }
    }
    return false;
}

/* The links of an edge: from a rank through switches to a rank. Sets parent and child. */
static bool get_path(struct reader *r, struct tt_forest_edge *e)
{
    const struct tt_topo *t = r->t;
    uint32_t v, at = UINT32_MAX;
    e->path = (uint32_t)r->links.len;
    do {
        if (!get_number(r, &v) || v / 4 >= t->nlinks)
            return false;
        uint32_t link = v / 2, a = t->links[link / 2].a, b = t->links[link / 2].b, tail = link & 1 ? b : a;
        bool first = at == UINT32_MAX;
        if (first ? tail >= t->ranks : tail != at || tail < t->ranks)
            return false;
        e->parent = first ? tail : e->parent;
        at = link & 1 ? a : b;
        if (r->links.len >= UINT32_MAX || !tt_vec_push(&r->links, &link, 1))
            return false;
    } while (v & 1);
    e->child = at;
    return at < t->ranks;
}

static bool get_edge(struct reader *r, uint32_t step, uint32_t *tree, struct tt_forest_edge *e)
{
    uint32_t n = r->f.ranks, turn;
    if (!get_number(r, &turn) || turn >= n || !get_path(r, e))
        return false;
    *tree = *tree + turn < n ? *tree + turn : *tree + turn - n;
    e->tree = *tree;
    e->step = step;
    uint32_t *joined = r->joined + (size_t)*tree * n;
    if (joined[e->parent] == 0 || joined[e->parent] > step + 1 || joined[e->child] != 0)
        return false;
    joined[e->child] = step + 2;
    return true;
}

/* A tree edge for every rank and tree: n (n-1) sound ones are whole trees. */
static bool get_edges(struct reader *r)
{
    uint32_t tree = 0, done = 0;
    for (uint32_t step = 0; step < r->f.steps; step++) {
        uint32_t n;
        if (!get_number(r, &n) || n == 0 || n > r->f.nedges - done)
            return false;
        for (; n > 0; n--, done++)
            if (!get_edge(r, step, &tree, &r->f.edges[done]))
                return false;
    }
    r->f.edges[done] = (struct tt_forest_edge){.path = (uint32_t)r->links.len};
    return done == r->f.nedges && r->at == r->end;
}

static bool get_header(struct reader *r, const struct tt_forest_options *o)
{
    uint64_t hash;
    uint32_t numbers[4];
    memcpy(&hash, r->at + sizeof(HEAD), sizeof(hash));
    memcpy(numbers, r->at + sizeof(HEAD) + sizeof(hash), sizeof(numbers));
    r->f = (struct tt_forest){.ranks = numbers[0], .steps = numbers[1], .nedges = numbers[2]};
    bool ok = memcmp(r->at, HEAD, sizeof(HEAD)) == 0 && hash == r->t->hash && numbers[0] == r->t->ranks && numbers[3] == option_bits(o);
    r->at += HEADER;
    return ok && numbers[0] > 1 && (uint64_t)numbers[0] * (numbers[0] - 1) == numbers[2];
}

static bool decode(struct reader *r, const struct tt_forest_options *o)
{
    if (!get_header(r, o))
        return false;
    uint32_t n = r->f.ranks;
    r->joined = tt_zalloc((size_t)n * n, sizeof(*r->joined));
    r->f.edges = tt_alloc((size_t)r->f.nedges + 1, sizeof(*r->f.edges));
    if (!r->joined || !r->f.edges)
        return false;
    for (uint32_t i = 0; i < n; i++)
        r->joined[(size_t)i * n + i] = 1;
    return get_edges(r);
}

/* The file's bytes, if it is ours and of a sensible size; NULL otherwise. */
static unsigned char *read_file(const char *path, size_t *ret_n)
{
    struct stat st;
    unsigned char *bytes = NULL;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    FILE *in = fd < 0 ? NULL : fdopen(fd, "r");
    if (!in) {
        if (fd >= 0)
            close(fd);
        return NULL;
    }
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() && st.st_size >= HEADER + CHECK && st.st_size <= LIMIT)
        bytes = tt_alloc((size_t)st.st_size, 1);
    if (bytes && fread(bytes, 1, (size_t)st.st_size, in) == (size_t)st.st_size) {
        *ret_n = (size_t)st.st_size;
        futimens(fd, NULL); /* used lately: the last to go */
    } else {
        free(bytes);
        bytes = NULL;
    }
    fclose(in);
    return bytes;
}

bool tt_forest_cache_load(const struct tt_topo *t, const struct tt_forest_options *o, struct tt_forest *ret)
{
    char path[TT_FOREST_PATH];
    size_t n = 0;
    unsigned char *bytes = tt_forest_cache_path(t, o, path, sizeof(path)) ? read_file(path, &n) : NULL;
    if (!bytes)
        return false;
    struct reader r = {.at = bytes, .end = bytes + n - CHECK, .t = t, .links.elem = sizeof(uint32_t)};
    uint64_t check;
    memcpy(&check, r.end, sizeof(check));
    bool ok = check == tt_hash_bytes(0, bytes, n - CHECK) && decode(&r, o);
    free(r.joined);
    free(bytes);
    if (ok) {
        r.f.links = r.links.data;
        *ret = r.f;
        return true;
    }
    free(r.f.edges);
    tt_vec_free(&r.links);
    return false;
}

tutti_status tt_forest_get(const struct tt_topo *t, const struct tt_forest_options *o, struct tt_forest *ret, struct tutti_error *err)
{
    bool kept = (uint64_t)t->ranks * (t->ranks - 1) >= KEPT_EDGES;
    if (kept && tt_forest_cache_load(t, o, ret))
        return TUTTI_OK;
    tutti_status st = tt_forest_make(t, o, ret, err);
    if (st == TUTTI_OK && kept)
        tt_forest_cache_save(t, o, ret);
    return st;
}
