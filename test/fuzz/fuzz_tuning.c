/* Tuning files: any bytes are read or refused with a reason. */
#include <stdlib.h>

#include "plan/plan.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct tt_tuning *t = NULL;
    struct tutti_error err = {0};
    if (tt_plan_tuning_read_memory((const char *)data, size, "fuzz", &t, &err) && (!err.status || !err.text[0]))
        abort();
    tt_plan_tuning_free(t);
    return 0;
}
