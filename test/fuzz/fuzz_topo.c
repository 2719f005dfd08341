/* Topology files: any bytes are read or refused with a position; what was read can be routed, measured and written again. */
#include <stdlib.h>

#include "topo/topo.h"

enum { MAX_LINKS = 20000 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void use(const struct tt_topo *t)
{
    struct tutti_error err;
    struct tt_topo_metrics m;
    uint32_t cap = tt_topo_max_route(t), len, *links = calloc(cap + 1, sizeof *links);
    if (links && t->ranks > 1 && tt_topo_route(t, 0, t->ranks - 1, links, cap, &len, &err))
        abort(); /* finish promised that all ranks reach each other */
    free(links);
    tt_topo_measure(t, &m, &err);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct tt_topo *t = NULL, *again = NULL;
    struct tutti_error err = {0};
    char *text = NULL;
    size_t len = 0;
    if (tt_topo_read_memory((const char *)data, size, "fuzz", &t, &err)) {
        if (!err.status || !err.text[0])
            abort();
        return 0;
    }
    if (t->nlinks > MAX_LINKS) { /* a few bytes of ASTRA-sim's format make a large network: reading it is enough */
        tt_topo_free(t);
        return 0;
    }
    use(t);
    FILE *f = open_memstream(&text, &len);
    if (!f || tt_topo_write(t, f, &err))
        abort();
    fclose(f);
    if (tt_topo_read_memory(text, len, "again", &again, &err) || again->hash != t->hash)
        abort();
    tt_topo_free(again);
    tt_topo_free(t);
    free(text);
    return 0;
}
