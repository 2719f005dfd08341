/* parts.h - what the files of lockstep/ share among themselves; nobody else includes it. */
#ifndef LOCKSTEP_PARTS_H
#define LOCKSTEP_PARTS_H

#include "lockstep.h"

enum { LS_NOBODY = UINT32_MAX };

struct ls_op {
    const struct tt_op *op;
    const struct tt_span *spans;
    size_t first, n;  /* its items among the rank's */
    uint32_t partner; /* messages: the operation of the peer; LS_NOBODY: there is none */
    uint64_t *data;   /* lockstep, during its step: the elements it moves */
};

struct ls_rank {
    struct ls_op *ops;
    size_t n;
    struct tt_vec items; /* struct ls_item */
    size_t *step;        /* nsteps + 1: the first operation of each step */
};

/* A buffer of a rank: elements, and for every cell when it was written last: 0 never, LS_GIVEN input, else its step's stamp. */
struct ls_row {
    uint64_t *value;
    uint32_t *stamp;
};
enum { LS_GIVEN = 1, LS_FIRST_STAMP = 2 };

struct ls {
    const struct tt_sched *s;
    struct ls_rank *rank;
    struct ls_result flaw;      /* what no run gets over */
    struct ls_result unmatched; /* what no run in lockstep gets over */

    struct ls_options o; /* of the run */
    struct ls_result result;
    uint64_t *offset; /* cells + 1: cell chunk * segments + segment begins at this element */
    struct ls_row *rows;
    uint32_t segment; /* which part of every chunk is running */
    uint32_t now;     /* stamp of what is written; live: LS_GIVEN, nothing is forbidden by steps */
};

void *ls_alloc(uint64_t n, size_t size); /* zeroed; aborts when there is none */
/* Keeps the first fault; returns false. */
bool ls_fault(struct ls_result *r, enum ls_verdict v, uint32_t rank, size_t op, const char *what);
bool ls_is_message(const struct tt_op *op);
bool ls_is_receive(const struct tt_op *op);

/* ---- program.c: taking apart ---- */
void ls_take_apart(struct ls *l);
const struct ls_item *ls_op_items(const struct ls_rank *k, const struct ls_op *o);
/* Do both ends of a message name the same chunks in the same order? */
bool ls_same_chunks(const struct ls_rank *ka, const struct ls_op *a, const struct ls_rank *kb, const struct ls_op *b);

/* ---- rules.c: the table at the top of sched.h, once more ---- */
bool ls_shape_ok(const struct tt_shape *s);
bool ls_reduces(const struct tt_shape *s);
bool ls_has_input(const struct tt_shape *s, uint32_t rank, uint32_t chunk);
bool ls_has_output(const struct tt_shape *s, uint32_t rank, uint32_t chunk);
uint32_t ls_source(const struct tt_shape *s, uint32_t chunk); /* when nothing is reduced: whose input it is */
uint32_t ls_alias(const struct tt_shape *s, uint32_t chunk);

/* ---- memory.c: the numbers ---- */
bool ls_memory_begin(struct ls *l); /* inputs are there */
void ls_memory_end(struct ls *l);
/* The place of (buf, chunk) among the rank's nbufs * chunks, OUT being IN when in place. */
uint64_t ls_place(const struct ls *l, uint32_t buf, uint32_t chunk);
uint64_t ls_op_elems(const struct ls *l, uint32_t rank, const struct ls_op *o);
/* Operand 0: what its items read; k > 0: the k-th span of a REDUCE. NULL after a fault, else to be freed. */
uint64_t *ls_read(struct ls *l, uint32_t rank, const struct ls_op *o, uint32_t operand);
bool ls_write(struct ls *l, uint32_t rank, const struct ls_op *o, const uint64_t *data);
/* Does a receive add to something that was written in this very step? */
bool ls_operand_is_new(struct ls *l, uint32_t rank, const struct ls_op *o);
bool ls_check_results(struct ls *l);

/* ---- lockstep.c, live.c ---- */
/* What a receive writes: the message, or its operand + the message. NULL after a fault, else to be freed. */
uint64_t *ls_receive(struct ls *l, uint32_t rank, const struct ls_op *o, const uint64_t *message);
bool ls_run_local(struct ls *l, uint32_t rank, const struct ls_op *o);
bool ls_run_live(struct ls *l);
#endif
