/* Topology specs: any text is parsed or refused; what was parsed reads back from its own file form with the same hash. */
#include <stdlib.h>
#include <string.h>

#include "topo/topo.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_round_trip(const struct tt_topo *t)
{
    char *text = NULL;
    size_t len = 0;
    struct tt_topo *again = NULL;
    struct tutti_error err;
    FILE *f = open_memstream(&text, &len);
    if (!f || tt_topo_write(t, f, &err))
        abort();
    fclose(f);
    if (tt_topo_read_memory(text, len, "again", &again, &err) || again->hash != t->hash)
        abort();
    tt_topo_free(again);
    free(text);
}

/* Numbers of 3 to 7 digits make legal networks too large for a fuzzer; longer ones must be refused and stay in. */
static bool too_large(const char *spec)
{
    for (size_t n; *spec; spec += n ? n : 1) {
        n = strspn(spec, "0123456789");
        if (n > 2 && n < 8)
            return true;
    }
    return false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char spec[512];
    struct tt_topo *t = NULL;
    struct tutti_error err = {0};
    if (size >= sizeof spec)
        return 0;
    memcpy(spec, data, size);
    spec[size] = '\0';
    if (too_large(spec))
        return 0;
    if (tt_topo_parse(spec, &t, &err)) {
        if (!err.status || !err.text[0])
            abort();
        return 0;
    }
    if (t->ranks + t->switches < 300 && t->nlinks < 2000)
        check_round_trip(t);
    tt_topo_free(t);
    return 0;
}
