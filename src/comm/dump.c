/* dump.c - TUTTI_DUMP: what a communicator really runs, as files that plan, verify and sim read.
 *
 *     DIR/topology-c0-<hash>.json                        the network it plans on, when it opens
 *     DIR/allreduce-ring-4-1048576-c0-<hash>.json        collective, algorithm, ranks, bytes of the
 *                                                        vector, communicator, plan hash
 *     DIR/allreduce-ring-4-1048576-c0-<hash>-rank0.txt   rank 0's program (exec/print.c), to read
 *
 * c0 is the world; the communicators of a split have a number of their own. Only rank 0 of a
 * communicator writes. A file appears whole (written under another name, then renamed), and equal
 * names have equal contents, so runs may share a folder. A plan file is the schedule: operations on
 * chunks. The lengths of the caller's blocks (the _v calls, and blocks that are not multiples of 64
 * bytes) belong to the call and are not in it; verify does not need them, sim prices the schedule's
 * own layout. A folder that cannot be written is an error on all ranks when the communicator opens;
 * later failures are logged and the job goes on. */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/blame.h"
#include "comm/comm_int.h"

/* DUMP_OPS_MAX: each operation takes about 40 bytes of text and of memory. */
enum { DUMP_OPS_MAX = 1 << 22, NAME_BYTES = 192 };

typedef tutti_status write_fn(const void *what, FILE *out, struct tutti_error *err);

static tutti_status write_sched(const void *what, FILE *out, struct tutti_error *err)
{
    return tt_sched_write(what, out, err);
}

static tutti_status write_topo(const void *what, FILE *out, struct tutti_error *err)
{
    return tt_topo_write(what, out, err);
}

static tutti_status write_program(const void *what, FILE *out, struct tutti_error *err)
{
    (void)err;
    tt_exec_program_print(what, out);
    return TUTTI_OK;
}

static tutti_status cannot(const char *path, int error, struct tutti_error *err)
{
    return tt_fail(err, TUTTI_ERR_IO, "TUTTI_DUMP: cannot write %.300s: %s", path, strerror(error));
}

/* Writes the new file `temp`. O_EXCL: an existing file is never overwritten half-way. */
static tutti_status write_new(const char *temp, write_fn *write, const void *what,
                              struct tutti_error *err)
{
    int fd = open(temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    FILE *out = fd < 0 ? NULL : fdopen(fd, "w");
    if (!out) {
        int error = errno;
        if (fd >= 0)
            close(fd);
        return cannot(temp, error, err);
    }
    tutti_status st = write(what, out, err);
    if (fclose(out) != 0 && !st)
        st = cannot(temp, errno, err);
    return st;
}

/* The process id makes the temporary name unique among writers on one host. */
static tutti_status write_file(const struct tt_comm *c, const char *name, write_fn *write,
                               const void *what, struct tutti_error *err)
{
    struct tt_str path = {0}, temp = {0};
    tt_str_printf(&path, "%s/%s", c->dump, name);
    tt_str_printf(&temp, "%s/.%s.%ld", c->dump, name, (long)getpid());
    tutti_status st = path.failed || temp.failed ? tt_fail_memory(err, "file name")
                                                 : write_new(temp.s, write, what, err);
    if (!st && rename(temp.s, path.s) != 0)
        st = cannot(path.s, errno, err);
    if (st && temp.s)
        unlink(temp.s);
    tt_str_free(&path);
    tt_str_free(&temp);
    return st;
}

/* ---- opening ---- */

/* Rank 0: the folder, created if it is missing, and the topology in it. */
static tutti_status dump_begin(struct tt_comm *c, struct tutti_error *err)
{
    char name[NAME_BYTES];
    if (mkdir(c->config.dump, 0777) != 0 && errno != EEXIST)
        return cannot(c->config.dump, errno, err);
    c->dump = realpath(c->config.dump, NULL); /* the program may change its directory */
    if (!c->dump)
        return cannot(c->config.dump, errno, err);
    snprintf(name, sizeof name, "topology-c%" PRIx32 "-%016" PRIx64 ".json", c->tag, c->topo->hash);
    return write_file(c, name, write_topo, c->topo, err);
}

/* What rank 0 sends to the others. */
struct answer {
    int32_t status;
    char text[380];
};

tutti_status tt_comm_dump_open(struct tt_comm *c, tt_exchange_fn *exchange, void *ctx,
                               struct tutti_error *err)
{
    if (!c->config.dump)
        return TUTTI_OK;
    struct answer mine = {0}, *all = tt_alloc(c->size, sizeof *all);
    struct tutti_error why;
    if (!all)
        return tt_fail_memory(err, "TUTTI_DUMP");
    if (c->rank == 0 && (mine.status = dump_begin(c, &why)))
        snprintf(mine.text, sizeof mine.text, "%.*s", (int)sizeof mine.text - 1, why.text);
    tutti_status st = exchange(ctx, &mine, sizeof mine, all, err);
    if (!st && all[0].status) {
        st = tt_fail(err, (tutti_status)all[0].status, "rank 0: %.*s", (int)sizeof mine.text - 1,
                     all[0].text);
        if (c->rank == 0)
            tt_blame_note(TT_NOTED_HINT, c->members[0], tt_boot_config(c->world->boot)->size,
                          err->text);
    }
    free(all);
    return st;
}

void tt_comm_dump_close(struct tt_comm *c)
{
    free(c->dump);
    c->dump = NULL;
}

/* ---- plans ---- */

static void skip(const struct tt_shape *s, const char *why)
{
    tt_log_write(TT_LOG_WARN, 0, "TUTTI_DUMP: %s by %s on %" PRIu32 " ranks is not written: %s",
                 tt_sched_coll_name(s->coll), s->algo, s->ranks, why);
}

bool tt_comm_dump_wants(const struct tt_comm *c, const struct tt_plan *plan,
                        const struct tt_sched *mine)
{
    uint64_t ops = mine->nops;
    uint32_t chunks;
    struct tutti_error err;
    char why[96];
    if (!c->dump)
        return false;
    if (mine->nslices != mine->shape.ranks && tt_plan_count(plan, c->topo, &ops, &chunks, &err)) {
        skip(&mine->shape, err.text);
        return false;
    }
    if (ops <= DUMP_OPS_MAX)
        return true;
    snprintf(why, sizeof why, "%" PRIu64 " operations, more than %d", ops, (int)DUMP_OPS_MAX);
    skip(&mine->shape, why);
    return false;
}

/* Writes rank 0's program, in the schedule's own layout. */
static tutti_status write_lowered(const struct tt_comm *c, const struct tt_sched *whole,
                                  const char *name, struct tutti_error *err)
{
    const struct tt_shape *s = &whole->shape;
    struct tt_program *p = NULL;
    struct tt_program_config pc = {.sched = whole,
                                   .rank = c->rank,
                                   .count = s->count,
                                   .dtype = s->dtype,
                                   .redop = s->redop,
                                   .places = c->wire.places,
                                   .box_bytes = c->box_bytes,
                                   .exchange_bytes = TT_BOX_BYTES};
    tutti_status st = tt_exec_program_make(&pc, &p, err);
    if (!st)
        st = write_file(c, name, write_program, p, err);
    tt_exec_program_free(p);
    return st;
}

/* The name of an algorithm in a user's plan may hold any character; a file name may not. */
static void plain_name(const char *algo, char *buf, size_t cap)
{
    size_t n = 0;
    for (; *algo && n + 1 < cap; algo++)
        buf[n++] = isalnum((unsigned char)*algo) || strchr("-_.+", *algo) ? *algo : '_';
    buf[n] = 0;
}

void tt_comm_dump_write(struct tt_comm *c, const struct tt_sched *whole)
{
    const struct tt_shape *s = &whole->shape;
    char name[NAME_BYTES], file[NAME_BYTES + 16], algo[TT_ALGO_NAME];
    struct tutti_error err;
    plain_name(s->algo, algo, sizeof algo);
    snprintf(name, sizeof name, "%s-%s-%" PRIu32 "-%" PRIu64 "-c%" PRIx32 "-%016" PRIx64,
             tt_sched_coll_name(s->coll), algo, s->ranks, s->count * tt_sched_dtype_bytes(s->dtype),
             c->tag, whole->hash);
    snprintf(file, sizeof file, "%s.json", name);
    tutti_status st = write_file(c, file, write_sched, whole, &err);
    snprintf(file, sizeof file, "%s-rank0.txt", name);
    if (!st)
        st = write_lowered(c, whole, file, &err);
    if (st)
        skip(s, err.text);
}
