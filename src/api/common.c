/* common.c - what the public functions share: status texts, files, options of growing structs.
 *
 * Every public function is a thin shell over a module: it finds the object behind the handle,
 * checks pointers, translates options and results (picoseconds to microseconds), and calls the
 * module. This module decides nothing itself. */
#include "api/api.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

const char *tutti_version(void)
{
    return TUTTI_VERSION;
}

const char *tutti_strerror(tutti_status status)
{
    return tt_status_text(status);
}

/* Times inside are whole picoseconds; a double holds them exactly up to 2^53 ps, about 2.5
 * hours. */
double tt_api_us(uint64_t ps)
{
    return (double)ps / 1e6;
}

tutti_status tt_api_open(const char *path, const char *mode, FILE **ret, const char **ret_name,
                         struct tutti_error *err)
{
    bool reading = mode[0] == 'r';
    if (tt_streq(path, "-")) {
        *ret = reading ? stdin : stdout;
        *ret_name = reading ? "standard input" : "standard output";
        return TUTTI_OK;
    }
    FILE *f = fopen(path, mode);
    if (!f)
        return tt_fail(err, TUTTI_ERR_IO, "cannot open %s for %s: %s", path,
                       reading ? "reading" : "writing", strerror(errno));
    *ret = f;
    *ret_name = path;
    return TUTTI_OK;
}

/* The first failure's errno is reported: flushing, else closing. A stream that was only read
 * cannot lose data. */
tutti_status tt_api_close(FILE *f, const char *name, bool written, struct tutti_error *err)
{
    bool standard = f == stdin || f == stdout;
    bool bad = written && (fflush(f) != 0 || ferror(f));
    int saved = errno;
    if (!standard && fclose(f) != 0 && written && !bad) {
        bad = true;
        saved = errno;
    }
    return bad ? tt_fail(err, TUTTI_ERR_IO, "cannot write %s: %s", name, strerror(saved))
               : TUTTI_OK;
}

tutti_status tt_api_struct_of(const char *function, const char *name, const void *given, void *own,
                              size_t bytes, struct tutti_error *err)
{
    /* a larger size was never set: it is garbage of an uninitialised struct */
    enum { MOST = 4096 };
    size_t size;
    if (!given)
        return tt_api_bad(function, err, TUTTI_ERR_ARG, "%s is NULL", name);
    memcpy(&size, given, sizeof size);
    if (size < sizeof size || size > MOST)
        return tt_api_bad(function, err, TUTTI_ERR_ARG,
                          "%s: set all of it to zero and `size` to its sizeof; size is %zu", name,
                          size);
    /* A newer caller's extra fields must be zero: we cannot obey what we do not know. */
    for (size_t i = bytes; i < size; i++)
        if (((const char *)given)[i])
            return tt_api_bad(function, err, TUTTI_ERR_ARG,
                              "%s: a field is set that version " TUTTI_VERSION " does not know",
                              name);
    memset(own, 0, bytes);
    memcpy(own, given, size < bytes ? size : bytes);
    /* `own` gets our own size, not the caller's. */
    memcpy(own, &bytes, sizeof bytes);
    return TUTTI_OK;
}

tutti_status tt_api_dtype(const char *function, tutti_dtype dtype, struct tutti_error *err)
{
    return (unsigned)dtype < TUTTI_DTYPE_COUNT
               ? TUTTI_OK
               : tt_api_bad(function, err, TUTTI_ERR_ARG, "there is no data type %d", (int)dtype);
}

/* Checks what algorithms take for granted: enumerations, the fit of type and reduction, the
 * root. */
tutti_status tt_api_problem(const struct tutti_plan_options *o, uint32_t ranks,
                            struct tt_problem *ret, struct tutti_error *err)
{
    if ((unsigned)o->coll >= TUTTI_COLL_COUNT || (unsigned)o->dtype >= TUTTI_DTYPE_COUNT ||
        (unsigned)o->redop >= TUTTI_REDOP_COUNT)
        return tt_fail(err, TUTTI_ERR_ARG, "options: unknown collective, data type or reduction");
    if (tt_sched_coll_sums(o->coll) && !tt_redop_fits(o->redop, o->dtype))
        return tt_fail(err, TUTTI_ERR_ARG, "options: there is no %s of %s",
                       tt_sched_redop_name(o->redop), tt_sched_dtype_name(o->dtype));
    if (o->root >= ranks)
        return tt_fail(err, TUTTI_ERR_RANGE, "root %u is not one of the %u ranks (0..%u)", o->root,
                       ranks, ranks - 1);
    *ret = (struct tt_problem){.coll = o->coll,
                               .ranks = ranks,
                               .root = o->root,
                               .count = o->count,
                               .dtype = o->dtype,
                               .redop = o->redop};
    return TUTTI_OK;
}

/* Splits "k=v,k=v" and adds each item. Empty items are skipped. */
static tutti_status add_options(const char *text, struct tt_options *ret, struct tutti_error *err)
{
    char *copy = tt_strdup(text);
    if (!copy)
        return tt_fail_memory(err, "options");
    char *rest = copy, *item;
    tutti_status st = TUTTI_OK;
    while (!st && (item = strsep(&rest, ",")))
        if (*item)
            st = tt_algo_options_add(ret, item, err);
    free(copy);
    return st;
}

/* algo is borrowed from the caller; the options are copied. Tuning is left to the caller. */
tutti_status tt_api_options(const struct tutti_plan_options *o, struct tt_plan_options *ret,
                            struct tutti_error *err)
{
    struct tt_plan_options out = {
        .algo = o->algo, .reproducible = o->reproducible, .budget_ms = o->budget_ms};
    if (o->options) {
        tutti_status st = add_options(o->options, &out.algo_options, err);
        if (st)
            return st;
    }
    *ret = out;
    return TUTTI_OK;
}
