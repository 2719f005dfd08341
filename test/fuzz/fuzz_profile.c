/* Profiles of models and saved fusion tunings: any bytes are read or refused with a reason; what was read makes a policy or a refusal. */
#include <stdlib.h>

#include "trainsim/trainsim.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint64_t cost(void *ctx, tutti_coll coll, enum tt_policy_algo algo, uint64_t bytes)
{
    (void)ctx;
    (void)coll;
    (void)algo;
    return 1000 + bytes;
}

static void use(const struct tt_model *m)
{
    struct tt_policy_costs c = {.cost = cost, .ranks = 4};
    struct tt_policy_tensor *t = NULL;
    struct tutti_error err = {0};
    if (tt_trainsim_model_tensors(m, &t, &err))
        return;
    for (unsigned k = 0; k < TT_POLICY_COUNT; k++) {
        struct tt_policy *p = NULL;
        struct tt_policy_times times;
        struct tt_policy_options o = {.kind = (enum tt_policy_kind)k, .fusion = TT_FUSION_THRESHOLD, .partition_bytes = UINT64_MAX};
        if (!tt_policy_make(&o, t, (uint32_t)m->tensors.len, &c, &p, &err) && tt_policy_time(p, t, &c, &times, NULL, NULL, &err))
            abort();
        tt_policy_free(p);
    }
    free(t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct tt_model *m = NULL;
    struct tt_tuner tuner;
    struct tutti_error err = {0};
    if (!tt_trainsim_profile_read_memory((const char *)data, size, "fuzz", &m, &err))
        use(m);
    else if (!err.status || !err.text[0])
        abort();
    tt_trainsim_model_free(m);
    FILE *f = size ? fmemopen((void *)(uintptr_t)data, size, "r") : NULL;
    if (!f)
        return 0;
    err = (struct tutti_error){0};
    if (tt_policy_tuner_read(f, "fuzz", &(struct tt_tuner_label){"m", "dear", 1}, &tuner, &err) ? !err.text[0] : tuner.n == 0)
        abort();
    fclose(f);
    return 0;
}
