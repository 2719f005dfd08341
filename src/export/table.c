/* table.c - the table of formats, and their options. To add a format: its own file with a const
 * struct, and a line here. */
#include <stddef.h>
#include <string.h>

#include "export/export.h"

extern const struct tt_export_format tt_export_msccl_xml, tt_export_msccl_json, tt_export_goal,
    tt_export_chakra, tt_export_dot, tt_export_svg;

static const struct tt_export_format *const formats[] = {
    &tt_export_msccl_xml, &tt_export_msccl_json, &tt_export_goal,
    &tt_export_chakra,    &tt_export_dot,        &tt_export_svg};

const struct tt_export_format *tt_export_get(size_t i)
{
    return i < countof(formats) ? formats[i] : NULL;
}

/* NULL with an error that has near matches. */
const struct tt_export_format *tt_export_find(const char *name, struct tutti_error *err)
{
    const char *names[countof(formats)];
    char near[160];
    for (size_t i = 0; i < countof(formats); i++) {
        if (tt_streq(formats[i]->name, name))
            return formats[i];
        names[i] = formats[i]->name;
    }
    tt_near_matches(name, names, countof(names), near, sizeof near);
    tt_fail(err, TUTTI_ERR_ARG, "unknown format '%.40s'%s%s (tutti export --list has all)", name,
            *near ? "; " : "", near);
    return NULL;
}

/* Is the key of that length one of the words (separated by spaces)? */
static bool has_word(const char *words, const char *key, size_t len)
{
    for (const char *at = words; *at; at += strcspn(at, " "), at += strspn(at, " "))
        if (strcspn(at, " ") == len && !strncmp(at, key, len))
            return true;
    return false;
}

/* Parses an option whose value is one of a few words. */
static tutti_status one_of(const char *option, const char *words, const char *value,
                           const char **ret, struct tutti_error *err)
{
    if (!*value || !has_word(words, value, strlen(value)))
        return tt_fail(err, TUTTI_ERR_ARG, "option %.60s: one of %s is expected", option, words);
    *ret = value;
    return TUTTI_OK;
}

static tutti_status number(const char *value, uint64_t min, uint64_t max, uint64_t *ret,
                           struct tutti_error *err)
{
    return tt_parse_u64(value, min, max, ret, err);
}

tutti_status tt_export_option(const struct tt_export_format *f, const char *option,
                              struct tt_export_options *o, struct tutti_error *err)
{
    const size_t len = strcspn(option, "=");
    if (!option[len] || !has_word(f->options, option, len))
        return tt_fail(err, TUTTI_ERR_ARG, "%s has no option %.60s (key=value; it takes: %s)",
                       f->name, option, *f->options ? f->options : "none");
    const char *value = option + len + 1;
    uint64_t n = 0;
    tutti_status st = TUTTI_OK;
    if (!strncmp(option, "instances", len)) {
        st = number(value, 1, 32, &n, err);
        o->instances = (uint32_t)n;
    } else if (!strncmp(option, "protocol", len)) {
        st = one_of(option, "Simple LL LL128", value, &o->protocol, err);
    } else if (!strncmp(option, "target", len)) {
        st = one_of(option, "msccl azure rccl", value, &o->target, err);
    } else if (!strncmp(option, "channel", len)) {
        st = one_of(option, "memory port", value, &o->channel, err);
    } else if (!strncmp(option, "min_bytes", len)) {
        st = tt_parse_size(value, &o->min_bytes, err);
    } else {
        st = tt_parse_size(value, &o->max_bytes, err);
    }
    return st;
}
