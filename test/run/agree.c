/* agree.c - one rank of agree.py: opens with a topology of its own (AGREE_TOPO_<rank>, else AGREE_TOPO) and sums, twice each. Prints one
 * line: "rank R ok", "rank R refused TEXT" (at open), "rank R error TEXT" (of a call) or "rank R WRONG N of COUNT". */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <tutti/tutti.h>

static float value(size_t i, unsigned rank)
{
    return (float)(i % 97 + 1) * (float)(1u << rank);
}

static size_t count_wrong(const float *y, size_t n, unsigned ranks)
{
    size_t wrong = 0;
    for (size_t i = 0; i < n; i++)
        wrong += y[i] != (float)(i % 97 + 1) * (float)((1u << ranks) - 1);
    return wrong;
}

static int sum(struct tutti_comm *c, size_t n)
{
    unsigned rank = tutti_comm_rank(c);
    float *x = malloc(n * sizeof *x), *y = calloc(n, sizeof *y);
    int code = 0;
    for (size_t i = 0; x && i < n; i++)
        x[i] = value(i, rank);
    if (!x || !y || tutti_allreduce(c, x, y, n, TUTTI_F32, TUTTI_SUM)) {
        printf("rank %u error %s\n", rank, tutti_comm_last_error(c)->text);
        code = 3;
    } else if (count_wrong(y, n, tutti_comm_size(c))) {
        printf("rank %u WRONG %zu of %zu\n", rank, count_wrong(y, n, tutti_comm_size(c)), n);
        code = 9;
    }
    free(x);
    free(y);
    return code;
}

/* The variable NAME_<rank>; NULL: not set. */
static const char *own(const char *name, const char *rank)
{
    char full[64];
    snprintf(full, sizeof full, "%s_%s", name, rank);
    return getenv(full);
}

int main(void)
{
    static const size_t counts[] = {384, 5003, 384, 7};
    const char *rank = getenv("TUTTI_RANK") ? getenv("TUTTI_RANK") : "0";
    struct tutti_comm *c;
    struct tutti_error err;
    if (own("AGREE_FOLDER", rank) && chdir(own("AGREE_FOLDER", rank)))
        return 2;
    if (own("AGREE_TOPO", rank))
        setenv("TUTTI_TOPO", own("AGREE_TOPO", rank), 1);
    if (tutti_comm_open(NULL, &c, &err)) {
        printf("rank %s refused %s\n", rank, err.text);
        return 3;
    }
    int code = 0;
    for (size_t i = 0; i < sizeof counts / sizeof *counts && !code; i++)
        code = sum(c, counts[i]);
    if (!code)
        printf("rank %u ok\n", tutti_comm_rank(c));
    tutti_comm_close(c);
    return code;
}
