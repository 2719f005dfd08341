/* names.c - the names of policies, fusion rules, tensor kinds and algorithms, all from the X-lists
 * of policy.h. */
#include "policy/policy.h"

#include <string.h>

static const char *const kinds[] = {
#define NAME(id, name) name,
    TT_KIND_LIST(NAME)
#undef NAME
};
static const char *const algos[] = {
#define NAME(id, name) name,
    TT_POLICY_ALGO_LIST(NAME)
#undef NAME
};
static const char *const policies[] = {
#define NAME(id, name, desc) name,
    TT_POLICY_LIST(NAME)
#undef NAME
};
static const char *const policy_descs[] = {
#define DESC(id, name, desc) desc,
    TT_POLICY_LIST(DESC)
#undef DESC
};
static const char *const fusions[] = {
#define NAME(id, name, desc) name,
    TT_FUSION_LIST(NAME)
#undef NAME
};
static const char *const fusion_descs[] = {
#define DESC(id, name, desc) desc,
    TT_FUSION_LIST(DESC)
#undef DESC
};

static int names_find(const char *name, const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (tt_streq(name, names[i]))
            return (int)i;
    return -1;
}

/* The index of a name, or -1 with an error that suggests near matches; without any it lists all
 * names. */
static int find_or_say(const char *what, const char *name, const char *const *names, size_t n,
                       struct tutti_error *err)
{
    char near[200];
    int i = names_find(name, names, n);
    if (i >= 0)
        return i;
    tt_near_matches(name, names, n, near, sizeof near);
    tt_fail(err, TUTTI_ERR_ARG, "no %s '%.64s'%s%s", what, name, *near ? "; " : "; there are ",
            near);
    for (size_t k = 0; !*near && err && k < n; k++) {
        size_t at = strlen(err->text);
        snprintf(err->text + at, sizeof err->text - at, "%s%s", k ? ", " : "", names[k]);
    }
    return -1;
}

const char *tt_policy_kind_name(enum tt_tensor_kind k)
{
    return kinds[k];
}

const char *tt_policy_algo_name(enum tt_policy_algo a)
{
    return algos[a];
}

const char *tt_policy_name(enum tt_policy_kind k)
{
    return policies[k];
}

const char *tt_policy_desc(enum tt_policy_kind k)
{
    return policy_descs[k];
}

int tt_policy_find(const char *name, struct tutti_error *err)
{
    return find_or_say("policy", name, policies, countof(policies), err);
}

const char *tt_policy_fusion_name(enum tt_fusion f)
{
    return fusions[f];
}

const char *tt_policy_fusion_desc(enum tt_fusion f)
{
    return fusion_descs[f];
}

int tt_policy_fusion_find(const char *name, struct tutti_error *err)
{
    return find_or_say("fusion", name, fusions, countof(fusions), err);
}
