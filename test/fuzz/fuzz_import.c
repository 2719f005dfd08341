/* Files of tutti topo --from-...: any bytes become a network or are refused with a reason. The first byte
 * chooses the format: m (matrix), h (hostfile), else Slurm. Seeds keep it as a comment would. */
#include <stdlib.h>

#include "topo/import.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct tt_topo *t = NULL;
    struct tutti_error err = {0};
    const char *text = (const char *)data + 1;
    tutti_status st;
    if (!size)
        return 0;
    if (data[0] == 'm')
        st = tt_topo_import_matrix(text, size - 1, "fuzz", "Gbps", 1000, &t, &err);
    else if (data[0] == 'h')
        st = tt_topo_import_hostfile(text, size - 1, "fuzz", NULL, &t, &err);
    else
        st = tt_topo_import_slurm(text, size - 1, "fuzz", NULL, &t, &err);
    if (st && (!err.status || !err.text[0]))
        abort();
    if (!st && (!t || t->ranks < 1))
        abort();
    tt_topo_free(st ? NULL : t);
    return 0;
}
