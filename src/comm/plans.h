/* plans.h - a plan that rank 0 hands out: what plans.c (the table, all ranks) and plans_lead.c
 * (rank 0) share. */
#ifndef TT_COMM_PLANS_H
#define TT_COMM_PLANS_H

#include "comm/comm_int.h"

/* What rank 0 says about a plan. Sent between ranks. */
struct plan_note {
    int32_t status; /* of planning; after a failure only `why` is valid */
    uint32_t pad;
    uint64_t predicted_ps, bound_ps, hash;
    uint64_t block_bytes;  /* length of each packed slice that follows, padded to the longest */
    uint32_t origin, pad2; /* enum tt_origin */
    char algo[TT_ALGO_NAME];
    struct tt_options options;
    char why[sizeof((struct tutti_error *)0)->text];
};

/* One hand-over in progress. */
struct handed {
    struct tt_hand hand;
    struct plan_note note;
    char *all; /* rank 0: packed slices of all ranks */
};

/* plans_lead.c, plans.c */
/* Plans for the call; simulating candidates gets FLOW_MS. */
tutti_status tt_comm_plans_plan(const struct tt_comm *c, const struct tt_comm_ask *ask,
                                struct tt_plan **ret, struct tutti_error *err);
/* `content` stands for what depends on the algorithm: the shape of a closed form; all operations of
 * a synthesised plan, or of a user's plan, which has no algorithm of ours (NULL). */
uint64_t tt_comm_plans_hash(const struct tt_comm *c, const struct tt_algo *al,
                            const struct tt_options *o, uint64_t content);
enum tt_origin tt_comm_plans_origin(const struct tt_comm_ask *ask, const struct tt_plan *plan);
/* The better prediction of the two. */
uint64_t tt_comm_plans_predicted(const struct tt_plan *plan);
/* Rank 0: the user's plan for this call, priced, and its note. */
tutti_status tt_comm_plans_given(struct tt_comm *c, const struct tt_comm_ask *ask,
                                 struct plan_note *n, struct tt_sched **ret,
                                 struct tutti_error *err);
/* Rank 0: the whole schedule, admitted and packed. On success *ret_all belongs to the caller. */
tutti_status tt_comm_plans_prepare(struct tt_comm *c, const struct tt_comm_ask *ask,
                                   struct plan_note *n, char **ret_all, struct tutti_error *err);
/* The note that says why there is no plan. */
void tt_comm_plans_refuse(struct plan_note *n, tutti_status st, const struct tutti_error *why);

#endif
