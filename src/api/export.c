/* export.c - the public functions that write a schedule in another format, over export/. Formats
 * come from the table of that module; here are options, files and one file per rank. */
#include "export/export.h"

#include <stdlib.h>
#include <string.h>

#include "api/api.h"

/* Parses a list "key=value,key=value", which is cut in place. */
static tutti_status read_options(const struct tt_export_format *f, char *list,
                                 struct tt_export_options *o, struct tutti_error *err)
{
    char *rest = list;
    for (char *one = strtok_r(list, ",", &rest); one; one = strtok_r(NULL, ",", &rest)) {
        tutti_status st = tt_export_option(f, one, o, err);
        if (st)
            return st;
    }
    return TUTTI_OK;
}

/* Writes one file. A file that could not be finished is removed. */
static tutti_status write_one(const struct tt_sched *s, const struct tt_export_format *f,
                              const struct tt_export_options *o, uint32_t rank, const char *path,
                              struct tutti_error *err)
{
    FILE *out;
    const char *name;
    tutti_status st = tt_api_open(path, "w", &out, &name, err);
    if (st)
        return st;
    st = f->write(s, o, rank, out, err);
    tutti_status closed = tt_api_close(out, name, true, st ? NULL : err);
    if (st && strcmp(path, "-"))
        remove(path); /* half a file would be taken for a whole one */
    return st ? st : closed;
}

/* One file, or PATH.RANK.et for each rank. */
static tutti_status write_all(const struct tt_sched *s, const struct tt_export_format *f,
                              const struct tt_export_options *o, const char *path,
                              struct tutti_error *err)
{
    char file[4096];
    if (!f->per_rank)
        return write_one(s, f, o, 0, path, err);
    if (tt_streq(path, "-"))
        return tt_fail(
            err, TUTTI_ERR_ARG,
            "%s writes a file for each rank: a path is needed, to which .<rank>.et is added",
            f->name);
    tutti_status st = TUTTI_OK;
    for (uint32_t r = 0; !st && r < s->shape.ranks; r++) {
        if ((size_t)snprintf(file, sizeof file, "%s.%u.et", path, r) >= sizeof file)
            return tt_fail(err, TUTTI_ERR_ARG, "the path is too long");
        st = write_one(s, f, o, r, file, err);
    }
    return st;
}

/* The list of options is copied, because parsing cuts it; `o` points into the copy. */
tutti_status tutti_schedule_export(const struct tutti_schedule *schedule, const char *format,
                                   const char *options, const char *path, struct tutti_error *err)
{
    struct tt_export_options o = {0};
    const struct tt_sched *s = api_find(SCHEDULE, schedule, err);
    tutti_status st = s ? api_given(err, "format", format, "path", path) : TUTTI_ERR_ARG;
    const struct tt_export_format *f = st ? NULL : tt_export_find(format, err);
    if (!f)
        return TUTTI_ERR_ARG;
    char *list = tt_strdup(options ? options : "");
    if (!list)
        return tt_fail_memory(err, "options");
    st = read_options(f, list, &o, err);
    if (!st)
        st = write_all(s, f, &o, path, err);
    free(list);
    return st;
}

bool tutti_export_get(size_t i, struct tutti_export_info *ret)
{
    const struct tt_export_format *f = tt_export_get(i);
    api_must("ret", ret);
    if (f)
        *ret = (struct tutti_export_info){
            .name = f->name, .desc = f->desc, .options = f->options, .per_rank = f->per_rank};
    return f;
}
