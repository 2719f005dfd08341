/* import.c - reads a file of tutti topo --from-...; the formats are in file_matrix.c and
 * file_cluster.c. */
#include "topo/import.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { BYTES_MAX = 32 << 20 };

static tutti_status read_whole(FILE *in, const char *path, struct tt_str *ret,
                               struct tutti_error *err)
{
    char buf[4096];
    size_t n;
    while ((n = fread(buf, 1, sizeof buf, in)) > 0 && !ret->failed && ret->len <= BYTES_MAX)
        tt_str_add(ret, buf, n);
    if (ferror(in))
        return tt_fail(err, TUTTI_ERR_IO, "%.200s: cannot be read: %s", path, strerror(errno));
    if (ret->len > BYTES_MAX)
        return tt_fail(err, TUTTI_ERR_LIMIT, "%.200s: more than %d bytes", path, BYTES_MAX);
    return ret->failed ? tt_fail_memory(err, "file") : TUTTI_OK;
}

static tutti_status import_text(const struct tt_import *from, const struct tt_str *text,
                                struct tt_topo **ret, struct tutti_error *err)
{
    const char *data = text->len ? text->s : "";
    if (tt_streq(from->kind, "matrix"))
        return tt_topo_import_matrix(data, text->len, from->path, from->unit, from->latency_ps, ret,
                                     err);
    if (tt_streq(from->kind, "slurm"))
        return tt_topo_import_slurm(data, text->len, from->path, from->link, ret, err);
    if (tt_streq(from->kind, "hostfile"))
        return tt_topo_import_hostfile(data, text->len, from->path, from->link, ret, err);
    return tt_fail(err, TUTTI_ERR_ARG, "\"%.40s\": matrix, slurm or hostfile", from->kind);
}

tutti_status tt_topo_import(const struct tt_import *from, struct tt_topo **ret,
                            struct tutti_error *err)
{
    struct tt_str text = {0};
    bool standard = tt_streq(from->path, "-");
    FILE *in = standard ? stdin : fopen(from->path, "rb");
    if (!in)
        return tt_fail(err, TUTTI_ERR_IO, "%.200s: cannot be opened: %s", from->path,
                       strerror(errno));
    tutti_status st = read_whole(in, from->path, &text, err);
    if (!standard)
        fclose(in);
    if (!st)
        st = import_text(from, &text, ret, err);
    tt_str_free(&text);
    return st;
}
