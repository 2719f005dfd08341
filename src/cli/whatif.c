/* whatif.c - what-ifs: ranks that are slow, links that are degraded or down, named as in our
 * output.
 *
 *     --slow rank=3,factor=2                     rank by number or name
 *     --degrade link=rank 3-switch 0,factor=4    1/4 of the bandwidth
 *     --down link=rank 0-rank 1                  a factor of infinity: the cable is taken out
 *
 * The flow and packet simulators take slow ranks and degraded links as they are; planning and level
 * step see a changed network (cli_whatif_apply). --down always changes the network. */
#include "cli/whatif.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const struct cli_option cli_whatif_options[] = {
    {"slow", 0, "rank=R,factor=F",
     "what if rank R (number or name) were F times slower; may be repeated"},
    {"degrade", 0, "link=A-B,factor=F",
     "what if a link had 1/F of its bandwidth (A->B: one direction); may be repeated"},
    {"down", 0, "link=A-B",
     "what if a link were down: the network without that cable; may be repeated"},
    {0}};

bool cli_read_factor(const char *text, double max, double *ret)
{
    size_t n = strlen(text);
    char *end;
    /* strtod would also take signs, exponents, "inf" and hexadecimal numbers. */
    if (!n || n > 20 || strspn(text, "0123456789.") != n)
        return false;
    *ret = strtod(text, &end);
    return !*end && *ret <= max;
}

/* The longest name of a rank or link in an option. */
enum { WHAT_CHARS = 500 };
#define MAX_FACTOR 1e9

/* Parses "rank=5,factor=2", in either order. The text after "rank=" goes to what[WHAT_CHARS].
 * The name of a link may contain commas, and even ",factor=": the last one counts. */
static int read_pair(const struct cli_args *a, const char *option, const char *key,
                     const char *text, char *what, double *factor)
{
    size_t k = strlen(key), n = 0, len = 0;
    const char *f = NULL, *w = NULL, *next;
    char number[24] = "";
    if (!strncmp(text, key, k) && text[k] == '=') {
        w = text + k + 1;
        /* The last ",factor=" counts: the name before it may contain the same text. */
        for (next = w; (next = strstr(next, ",factor=")); next++)
            f = next + 8;
        n = f ? (size_t)(f - 8 - w) : 0;
        len = f ? strlen(f) : 0;
    } else if (!strncmp(text, "factor=", 7) && (next = strchr(text, ',')) &&
               !strncmp(next + 1, key, k) && next[k + 1] == '=') {
        f = text + 7;
        len = (size_t)(next - f);
        w = next + k + 2;
        n = strlen(w);
    }
    if (!f || !n || n >= WHAT_CHARS)
        return cli_bad(a, "--%s %.80s: %s=...,factor=F is expected", option, text, key);
    if (len < sizeof number)
        memcpy(number, f, len);
    if (!cli_read_factor(number, MAX_FACTOR, factor) || *factor <= 0)
        return cli_bad(
            a, "--%s: factor '%.*s': a number above 0 and at most 1e9 is needed; 2 is half as fast",
            option, (int)(len < 40 ? len : 40), f);
    memcpy(what, w, n);
    what[n] = '\0';
    return 0;
}

/* The array has room: there are at most CLI_MAX_VALUES options. */
static int add_slow(const struct cli_args *a, const struct tutti_topo *t, const char *text,
                    struct cli_whatif *w)
{
    char what[WHAT_CHARS];
    struct tutti_error err;
    uint32_t rank;
    double factor = 1;
    int code = read_pair(a, "slow", "rank", text, what, &factor);
    if (code)
        return code;
    if (tutti_topo_find_rank(t, what, &rank, &err))
        return cli_bad(a, "--slow: %s", err.text);
    w->slow[w->nslow++] = (struct tutti_sim_slow){rank, factor};
    w->faster = w->faster || factor < 1;
    return 0;
}

/* Adds the links that a text names (both directions of a cable, perhaps several) with their
 * factor. */
static int add_links(const struct cli_args *a, const struct tutti_topo *t, const char *option,
                     const char *text, double factor, struct cli_whatif *w)
{
    struct tutti_error err;
    uint32_t *links;
    size_t n;
    if (tutti_topo_find_links(t, text, &links, &n, &err))
        return cli_bad(a, "--%s: %s", option, err.text);
    struct tutti_sim_degrade *more = realloc(w->degrade, (w->ndegrade + n) * sizeof *more);
    if (more)
        w->degrade = more;
    for (size_t i = 0; more && i < n; i++)
        more[w->ndegrade++] = (struct tutti_sim_degrade){links[i], factor};
    w->faster = w->faster || factor < 1;
    free(links);
    return more ? 0 : cli_bad(a, "out of memory");
}

static int add_degrade(const struct cli_args *a, const struct tutti_topo *t, const char *text,
                       struct cli_whatif *w)
{
    char what[WHAT_CHARS];
    double factor = 1;
    int code = read_pair(a, "degrade", "link", text, what, &factor);
    return code ? code : add_links(a, t, "degrade", what, factor, w);
}

/* Calls `add` for every option of that name, in the order given; stops at the first complaint. */
static int for_each(const struct cli_args *a, const char *option, const struct tutti_topo *t,
                    struct cli_whatif *w,
                    int (*add)(const struct cli_args *, const struct tutti_topo *, const char *,
                               struct cli_whatif *))
{
    int code = 0;
    for (size_t i = 0; i < a->nvalues && !code; i++)
        if (!strcmp(a->values[i].option->name, option))
            code = add(a, t, a->values[i].value, w);
    return code;
}

int cli_whatif_get(const struct cli_args *a, const struct tutti_topo *t, struct cli_whatif *ret)
{
    *ret = (struct cli_whatif){0};
    int code = for_each(a, "slow", t, ret, add_slow);
    if (!code)
        code = for_each(a, "degrade", t, ret, add_degrade);
    if (code)
        cli_whatif_free(ret);
    return code;
}

void cli_whatif_free(struct cli_whatif *w)
{
    free(w->degrade);
    *w = (struct cli_whatif){0};
}

/* A link that is down is one with no bandwidth left. */
static int add_down(const struct cli_args *a, const struct tutti_topo *t, const char *text,
                    struct cli_whatif *w)
{
    bool named = !strncmp(text, "link=", 5);
    return named ? add_links(a, t, "down", text + 5, (double)INFINITY, w)
                 : cli_bad(a, "--down %.80s: link=A-B is expected", text);
}

int cli_whatif_down(const struct cli_args *a, struct tutti_topo **t)
{
    struct cli_whatif w = {0};
    struct tutti_topo *without = NULL;
    int code = for_each(a, "down", *t, &w, add_down);
    if (!code && w.ndegrade)
        code = cli_whatif_apply(a, *t, &w, &without);
    cli_whatif_free(&w);
    if (code || !without)
        return code;
    tutti_topo_free(*t);
    *t = without;
    return 0;
}

int cli_whatif_apply(const struct cli_args *a, const struct tutti_topo *t,
                     const struct cli_whatif *w, struct tutti_topo **ret)
{
    struct tutti_error err;
    if (!tutti_topo_change(t, w->slow, w->nslow, w->degrade, w->ndegrade, ret, &err))
        return 0;
    int code = cli_fail(a, &err);
    /* a network that is cut off is an answer, not a mistake */
    return err.status == TUTTI_ERR_RANGE ? CLI_NO : code;
}
