/* print.c - prints a compiled program as text: what each operation moves, what it waits for, and
 * how lower.c marked it.
 *
 *   5 operations in 1 segment, f32 sum, 64 bytes of own memory, may run in place
 *   0    send        -> 1 channel 0 message 0  IN+64 x 16  waits 0/0  group 0 of 1
 *   1    recv        <- 1 channel 0 message 0  OWN+0 x 16  waits 0/0  held by 2
 *   2    reduce        OUT+0 = IN+0, OWN+0 x 16  waits 1/1  holds -, 1  result of group 3
 *   3    send        -> 1 channel 0 message 1  OUT+0 x 16  waits 1/1  group 3 of 1  may be written
 *   4    recv        <- 1 channel 0 message 1  OUT+64 x 16  waits 0/1  offered 1/1
 *
 * A place is a base and a byte offset; the number after x is elements. Pairs a/b are the two modes:
 * IN and OUT apart, and in place. */
#include <inttypes.h>

#include "exec/exec_int.h"

/* An operation may have thousands of fragments: a line shows the first ones. */
enum { FRAGS_SHOWN = 4 };

static void print_place(uint64_t ref, FILE *out)
{
    static const char *const names[] = {"IN", "OUT", "OWN"};
    uint32_t base = (uint32_t)(ref >> 48);
    if (base < TT_XBASE_RUNS)
        fprintf(out, "%s+%" PRIu64, names[base], ref & TT_XREF_OFFSET);
    else
        fprintf(out, "PART%" PRIu32 "+%" PRIu64, base - TT_XBASE_RUNS, ref & TT_XREF_OFFSET);
}

static void print_fragments(const struct tt_program *p, const struct tt_xop *op, FILE *out)
{
    const uint64_t *word = p->code + op->code;
    uint32_t shown = op->nfrags > FRAGS_SHOWN ? FRAGS_SHOWN : op->nfrags;
    for (uint32_t i = 0; i < shown; i++, word += 1 + op->width) {
        fputs(i ? "; " : "  ", out);
        for (uint32_t w = 0; w < op->width; w++) {
            fputs(w == 0 ? "" : w == 1 ? " = " : ", ", out);
            print_place(word[1 + w], out);
        }
        fprintf(out, " x %" PRIu64 "%s", word[0] & ~TT_XDIVIDE,
                word[0] & TT_XDIVIDE ? " mean" : "");
    }
    if (shown < op->nfrags)
        fprintf(out, "; and %" PRIu32 " more, %" PRIu64 " elements in all", op->nfrags - shown,
                op->elems);
}

static void print_peer(const struct tt_program *p, const struct tt_xop *op, FILE *out)
{
    const struct tt_xlink *l = &p->links[op->link];
    fprintf(out, "%s %" PRIu32 " channel %u message %" PRIu32 "%s",
            op->kind == TT_OP_SEND ? "->" : "<-", l->peer, op->channel, op->message,
            l->place == TT_NO_PLACE ? " (another host)" : "");
}

static void print_waits(const struct tt_program *p, uint32_t i, FILE *out)
{
    fprintf(out, "  waits %" PRIu32, p->fresh[0][(size_t)i * p->segments].waits);
    if (p->inplace)
        fprintf(out, "/%" PRIu32, p->fresh[1][(size_t)i * p->segments].waits);
}

/* By operand, the receive whose data the reduction takes where they lie; -: an own place. */
static void print_holds(const struct tt_program *p, const struct tt_xop *op, FILE *out)
{
    fputs("  holds", out);
    for (uint32_t w = 0; w + 1 < op->width; w++) {
        uint32_t recv = p->holds[op->holds + w];
        fputs(w ? ", " : " ", out);
        if (recv == TT_XNO)
            fputc('-', out);
        else
            fprintf(out, "%" PRIu32, recv);
    }
}

/* The marks of lower.c; an operation without marks prints nothing. */
static void print_marks(const struct tt_program *p, const struct tt_xop *op, FILE *out)
{
    if (op->holds != TT_XNO)
        print_holds(p, op, out);
    if (op->held_by != TT_XNO)
        fprintf(out, "  held by %" PRIu32, op->held_by);
    if (op->group != TT_XNO && op->kind == TT_OP_SEND)
        fprintf(out, "  group %" PRIu32 " of %" PRIu32, op->group, p->ops[op->group].nsends);
    else if (op->group != TT_XNO)
        fprintf(out, "  result of group %" PRIu32, op->group);
    if (op->offer != TT_XNO)
        fputs("  may be written", out);
    if (op->offers)
        fprintf(out, "  offered %d/%d", op->offers & 1, op->offers >> 1 & 1);
}

static void print_op(const struct tt_program *p, uint32_t i, FILE *out)
{
    const struct tt_xop *op = &p->ops[i];
    fprintf(out, "%-4" PRIu32 " %-11s ", i, tt_sched_op_name(op->kind));
    if (op->kind <= TT_OP_RECV_REDUCE)
        print_peer(p, op, out);
    print_fragments(p, op, out);
    print_waits(p, i, out);
    print_marks(p, op, out);
    fputc('\n', out);
}

void tt_exec_program_print(const struct tt_program *p, FILE *out)
{
    fprintf(out,
            "%" PRIu32 " operations in %" PRIu32 " segment%s, %s %s, %zu bytes of own memory%s%s\n",
            p->nops, p->segments, p->segments > 1 ? "s" : "", tt_sched_dtype_name(p->dtype),
            tt_sched_redop_name(p->redop), p->own_bytes, p->inplace ? ", may run in place" : "",
            p->box ? ", all in one box" : "");
    for (uint32_t i = 0; i < p->nops; i++)
        print_op(p, i, out);
}
