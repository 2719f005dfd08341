/* policy_int.h - what the files of policy/ share. */
#ifndef TT_POLICY_INT_H
#define TT_POLICY_INT_H

#include "policy/policy.h"

/* No sum of times or bytes may reach this: all arithmetic stays far from overflow. 2^60 ps are 13
 * days. */
#define TT_POLICY_MOST ((uint64_t)1 << 60)

/* The input of a policy being made; `o` has its defaults filled in. */
struct tt_policy_input {
    struct tt_policy_options o;
    const struct tt_policy_tensor *t;
    uint32_t n;
    const struct tt_policy_costs *costs;
};

/* fuse.c: begins[i] becomes true where a bucket begins at tensor i (fusion as in o.fusion, not
 * DEFAULT or SEARCH). */
tutti_status tt_policy_fuse(const struct tt_policy_input *in, bool *begins,
                            struct tutti_error *err);
/* Must tensors i-1 and i be in different buckets (i > 0)? */
bool tt_policy_fuse_apart(const struct tt_policy_input *in, uint32_t i);
/* fuse_optimal.c: begins[] holds the units on entry, the buckets on return. */
tutti_status tt_policy_fuse_optimal(const struct tt_policy_input *in, const uint64_t *ready,
                                    bool *begins, struct tutti_error *err);
/* When each gradient is ready, from the start of backward: ready[n]. */
void tt_policy_ready(const struct tt_policy_tensor *t, uint32_t n, uint64_t *ready);

/* make.c: the policy of an input whose fusion and order are both decided. */
tutti_status tt_policy_settle(const struct tt_policy_input *in, struct tt_policy **ret,
                              struct tutti_error *err);
/* search.c: the best of those that the input leaves open; `parts`: also of large tensors in
 * parts. */
tutti_status tt_policy_search(const struct tt_policy_input *in, bool parts, struct tt_policy **ret,
                              struct tutti_error *err);

/* The algorithm for a bucket of this kind and size. */
enum tt_policy_algo tt_policy_pick(const struct tt_policy_input *in, enum tt_tensor_kind kind,
                                   uint64_t bytes);
/* The optimizer's time for that many bytes. */
uint64_t tt_policy_update_ps(const struct tt_policy_costs *c, uint64_t bytes);

/* order.c: fills p->launches (allocated, nlaunches of them) from p->buckets in the order that
 * p->options.order asks for (not BEST). */
tutti_status tt_policy_launches(struct tt_policy *p, const struct tt_policy_input *in,
                                struct tutti_error *err);
#endif
