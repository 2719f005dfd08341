/* Traces of runs: any bytes are read or refused with a position; what was read can be written for a page. */
#include <stdlib.h>

#include "export/run.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct tt_run run;
    struct tutti_error err = {0};
    struct tt_json_writer w;
    char *text = NULL;
    size_t len = 0;
    FILE *in = size ? fmemopen((void *)(uintptr_t)data, size, "r") : NULL;
    if (!in)
        return 0;
    tutti_status st = tt_export_run_read(in, "fuzz", &run, &err);
    fclose(in);
    if (st) {
        if (!err.status || !err.text[0])
            abort();
        return 0;
    }
    FILE *out = open_memstream(&text, &len);
    if (!out)
        abort();
    tt_json_begin(&w, out);
    if (tt_export_run_write(&run, &w, &err))
        abort();
    fclose(out);
    free(text);
    tt_export_run_free(&run);
    return 0;
}
