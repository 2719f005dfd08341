/* say.c - faults in the words of the schedule: rank, step, operation, chunk, buffer. Texts are
 * returned by value, so that several can be arguments of one printf. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "verify/verify_int.h"

tutti_status tt_verify_fault(struct tt_verifier *v, uint32_t rank, uint64_t op, const char *fmt,
                             ...)
{
    struct tt_verify_result *r = v->result;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(r->why, sizeof r->why, fmt, ap);
    va_end(ap);
    r->ok = false;
    r->rank = rank;
    r->op = op;
    return TUTTI_ERR_INCORRECT;
}

struct tt_vtext tt_verify_say_buf(uint32_t buf)
{
    struct tt_vtext t;
    if (buf < TT_BUF_SCRATCH)
        snprintf(t.s, sizeof t.s, "%s", buf == TT_BUF_IN ? "the input" : "the output");
    else
        snprintf(t.s, sizeof t.s, "scratch %" PRIu32, buf - TT_BUF_SCRATCH);
    return t;
}

struct tt_vtext tt_verify_say_op(const struct tt_op *op)
{
    static const char *const words[TT_OP_KINDS] = {"send to", "receive from", "receive-reduce from",
                                                   "reduce", "copy"};
    struct tt_vtext t;
    if (op->kind > TT_OP_RECV_REDUCE)
        snprintf(t.s, sizeof t.s, "%s", words[op->kind]);
    else if (op->channel == 0)
        snprintf(t.s, sizeof t.s, "%s rank %" PRIu32, words[op->kind], op->peer);
    else
        snprintf(t.s, sizeof t.s, "%s rank %" PRIu32 " on channel %d", words[op->kind], op->peer,
                 op->channel);
    return t;
}

/* Lists ranges until the text is long enough for a sentence. A range adds at most 23 characters,
 * so ENOUGH leaves room for one more and the dots. */
struct tt_vtext tt_verify_say_chunks(const struct tt_slice *sl, const struct tt_op *op)
{
    enum { ENOUGH = 48 };
    struct tt_vtext t;
    struct tt_vwalk w = tt_vwalk_op(sl, op);
    struct tt_vrange r;
    const char *comma = "";
    size_t n = (size_t)snprintf(t.s, sizeof t.s, "chunk ");
    while (tt_vwalk_next(&w, &r)) {
        if (n > ENOUGH) {
            snprintf(t.s + n, sizeof t.s - n, ", ...");
            break;
        }
        n += (size_t)snprintf(t.s + n, sizeof t.s - n, "%s%" PRIu32, comma, r.first);
        if (r.len > 1)
            n += (size_t)snprintf(t.s + n, sizeof t.s - n, "-%" PRIu32, r.first + r.len - 1);
        comma = ", ";
    }
    return t;
}
