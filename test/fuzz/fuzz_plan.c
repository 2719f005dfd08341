/* Plan files: any bytes are read or refused with a position; what was read is judged by the verifier without a crash and writes itself
 * again. */
#include <stdlib.h>

#include "sched/sched.h"
#include "verify/verify.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_round_trip(const struct tt_sched *s)
{
    struct tt_sched *again = NULL;
    struct tutti_error err;
    char *text = NULL;
    size_t len = 0;
    FILE *f = open_memstream(&text, &len);
    if (!f || tt_sched_write(s, f, &err))
        abort();
    fclose(f);
    if (tt_sched_read_memory(text, len, "again", &again, &err) || !tt_sched_equal(s, again))
        abort();
    tt_sched_free(again);
    free(text);
}

/* As `tutti verify` does it: read without judging, then prove. */
static void judge_unchecked(const uint8_t *data, size_t size)
{
    struct tt_sched *s = NULL;
    struct tutti_error err = {0};
    struct tt_verify_result v;
    FILE *in = size ? fmemopen((void *)data, size, "r") : NULL;
    if (in && !tt_sched_read_unchecked(in, "fuzz", &s, &err))
        tt_verify(s, &(struct tt_verify_options){.seed = 1}, &v, &err);
    tt_sched_free(s);
    if (in)
        fclose(in);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct tt_sched *s = NULL;
    struct tutti_error err = {0};
    judge_unchecked(data, size);
    if (tt_sched_read_memory((const char *)data, size, "fuzz", &s, &err)) {
        if (!err.status || !err.text[0])
            abort();
        return 0;
    }
    struct tt_verify_result v;
    struct tt_verify_options exact = {.seed = 1}, finger = {.seed = 1, .method = TT_VERIFY_FINGERPRINT};
    bool known = !tt_verify(s, &exact, &v, &err), ok = known && v.ok;
    if (known && !tt_verify(s, &finger, &v, &err) && v.ok != ok)
        abort(); /* both methods agree on what is correct */
    check_round_trip(s);
    tt_sched_free(s);
    return 0;
}
