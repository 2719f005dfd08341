/* lowered_int.h - what the lowered_*.c share among themselves; nobody else includes it. */
#ifndef LOWERED_INT_H
#define LOWERED_INT_H

#include "exec/exec_int.h"
#include "lowered.h"
#include "parts.h"

/* Tags of cells besides operation numbers. */
enum { LW_INPUT = UINT32_MAX, LW_NOTHING = UINT32_MAX - 1 };

struct lw_cell {
    uint64_t value;
    uint32_t tag; /* the operation that wrote it */
    bool divided;
};

/* An operation's elements in the order in which it moves them. */
struct lw_op {
    uint64_t n;
    uint32_t width;
    uint32_t *segment; /* by element */
    bool *divide;      /* by element */
    uint64_t *at;      /* by element and reference: cell */
    uint32_t *want;    /* the same: the tag that a read must find; reference 0 counts only in sends */
    uint32_t partner;  /* messages: the peer's operation; LS_NOBODY */
    uint32_t peer;
};

/* One segment of a message, kept at its sender. */
struct lw_message {
    uint8_t form; /* enum lw_form, LW_WRITTEN */
    bool offered, written, arrived, held;
};
enum { LW_WRITTEN = LW_MIXED + 1 };

struct lw_boxed {
    const struct lw_cell *at; /* NULL: not in a box */
    uint64_t n;               /* cells to the end of the box */
};

enum lw_action_kind { LW_START, LW_RUN, LW_POST, LW_ARRIVE, LW_USE, LW_BACK, LW_OFFER, LW_TAKE_BOX, LW_ACTIONS };
struct lw_action { /* operation op of the rank; ARRIVE, BACK: a send; USE, OFFER: a receive */
    uint32_t rank, op, segment;
};

struct lw_rank {
    const struct tt_program *p;
    struct lw_op *ops;
    struct lw_message *messages; /* by task */
    struct lw_cell **data;       /* by operation: what was sent as bytes; NULL before the first */
    struct lw_cell **copy;       /* by first send of a group: the copy that its sends share */
    bool *copied;                /* by task: the segment is in the copy */
    struct lw_boxed *from;       /* by entry of holds: the operand in a box */
    uint32_t *waits;             /* by task */
    bool *done;                  /* by task */
    struct lw_cell *cells, *box;
    uint64_t ncells, in, out, own; /* where areas begin */
    uint64_t nbox;
    uint32_t mode;
    bool started;
    uint32_t round; /* rows: that it is in */
    bool heap;      /* its buffers are where peers can read them */
    bool finished;
};

struct lw {
    const struct tt_sched *s;
    uint64_t count;
    uint32_t segments;
    struct tt_bind bind;
    struct lw_rank *rank;
    struct lw_options o; /* of the run */
    ls_sum *sum;
    struct ls_result result;
    struct lw_counts counts;
    struct tt_rng rng;
    struct tt_vec actions[LW_ACTIONS]; /* struct lw_action that can happen now */
    uint8_t order[LW_ACTIONS];         /* of this run: which kinds go first as a rule */
    uint32_t boxed;                    /* ranks that have put */
    bool whole, again;                 /* rows: no box is needed; one more meeting at the end */
};

/* ---- lowered_memory.c ---- */
void lw_memory_begin(struct lw *l, uint32_t rank); /* mode, cells, inputs, and what each read must find */
void lw_memory_end(struct lw_rank *k);
uint64_t lw_cell_at(const struct lw_rank *k, uint64_t ref); /* of a reference */
bool lw_check_results(struct lw *l);

/* ---- lowered_ops.c: what operations do; false after a fault ---- */
/* Is there anything of the operation in the segment (a barrier's messages have no elements, but must be heard)? */
bool lw_is_empty(const struct lw *l, uint32_t rank, uint32_t op, uint32_t segment);
bool lw_post(struct lw *l, uint32_t rank, uint32_t op, uint32_t segment); /* chooses the form and takes what it needs */
bool lw_use(struct lw *l, uint32_t rank, uint32_t op, uint32_t segment);
bool lw_local(struct lw *l, uint32_t rank, uint32_t op, uint32_t segment);
bool lw_can_offer(const struct lw *l, uint32_t rank, uint32_t op, uint32_t segment);
bool lw_put(struct lw *l, uint32_t rank);
bool lw_get(struct lw *l, uint32_t rank);
/* Is `c` what the operation must find? */
bool lw_judge(struct lw *l, uint32_t rank, uint32_t op, const struct lw_cell *c, uint32_t want);
bool lw_write(struct lw *l, uint32_t rank, uint32_t op, uint64_t i, const struct lw_cell *value);

/* ---- lowered_row.c ---- */
void lw_row_begin(struct lw *l);
bool lw_row_put(struct lw *l, uint32_t rank);
bool lw_row_take(struct lw *l, uint32_t rank); /* true: it goes on */
bool lw_row_read(struct lw *l, uint32_t rank, uint32_t recv, uint64_t i, struct lw_cell *ret);
bool lw_row_result(struct lw *l, uint32_t rank, uint32_t op, uint64_t i, const struct lw_cell *value);
#endif
