/* program.h - a schedule in the form that writers of other formats need.
 *
 * An act is one engine-level action on one run of consecutive chunks in one pair of buffers. An
 * operation of the schedule becomes one act per run, in rising order of chunks; a reduction of n
 * operands becomes a copy and additions. The two ends of a message are cut at the same chunks, so
 * that the k-th act of a send is received by the k-th act of its partner.
 *
 *     op 3  send  IN 0-1, OUT 2   -> rank 1        acts  send IN 0-1, send OUT 2
 *     op 0  recv  SCRATCH 0-2     <- rank 0        acts  recv SCRATCH 0-1, recv SCRATCH 2 */
#ifndef TT_EXPORT_PROGRAM_H
#define TT_EXPORT_PROGRAM_H

#include "sched/deps.h"
#include "sched/sched.h"

enum tt_act_kind { TT_ACT_SEND, TT_ACT_RECV, TT_ACT_RECV_ADD, TT_ACT_COPY, TT_ACT_ADD };

struct tt_act {
    /* enum tt_act_kind; RECV_ADD: buf = src + message, COPY: buf = src, ADD: buf = buf + src */
    uint8_t kind;
    uint32_t chunk, len;
    uint32_t buf, src;
    uint32_t op; /* the operation's number in its slice */
};

struct tt_export_program {
    const struct tt_sched *sched;
    /* by number of the operation in the schedule: the number of the other end; UINT64_MAX: local */
    uint64_t *partner;
    /* of the rank of the last tt_export_program_rank: */
    uint32_t rank;
    struct tt_slice slice;
    struct tt_vec acts;  /* struct tt_act; those of an operation are consecutive */
    uint32_t *first_act; /* by operation: its first act; and the end */
    /* struct tt_edge by rising `to`: for IN and OUT apart, and also in place where that is
     * allowed */
    struct tt_vec edges;
    struct tt_deps deps;
    struct tt_vec mine, theirs; /* the runs of both ends of a message, while it is cut */
};

/* Which of two lists of n words comes first? Negative: a. For the orders of messages. */
int tt_export_compare(const uint32_t *a, const uint32_t *b, size_t n);
/* Matches the messages of a whole schedule. TUTTI_ERR_INCORRECT when one has no partner. p keeps
 * a pointer to s. */
tutti_status tt_export_program_open(const struct tt_sched *s, struct tt_export_program *ret,
                                    struct tutti_error *err);
/* Lists the acts and the waits of one rank, in place of those of the rank before. */
tutti_status tt_export_program_rank(struct tt_export_program *p, uint32_t rank,
                                    struct tutti_error *err);
void tt_export_program_close(struct tt_export_program *p);

static inline const struct tt_act *tt_export_acts(const struct tt_export_program *p, uint32_t op,
                                                  uint32_t *ret_n)
{
    *ret_n = p->first_act[op + 1] - p->first_act[op];
    return (const struct tt_act *)p->acts.data + p->first_act[op];
}
/* The number of an operation in the whole schedule. */
static inline uint64_t tt_export_number(const struct tt_sched *s, uint32_t rank, uint32_t op)
{
    return s->op_start[rank - s->first_rank] + op;
}
#endif
