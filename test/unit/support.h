/* support.h - what the unit tests of algorithms and of the verifier share. Whatever goes wrong here fails the running test. */
#ifndef TEST_SUPPORT_H
#define TEST_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "algo/algos.h"
#include "lockstep.h"
#include "plan/plan.h"
#include "topo_spec.h"

struct tt_sched *build_of(const struct tt_algo *al, const struct tt_algo_args *a);
/* The same, but what was synthesised for one size serves the others: for tests that ask for many sizes on a network. */
struct tt_sched *cached_of(const struct tt_algo *al, const struct tt_algo_args *a, struct tt_plan_cache *c);
/* The schedule that the builder holds; it must be well-formed. */
struct tt_sched *frozen(struct tt_builder *b);
/* Well-formed; right on numbers and free of deadlock by the interpreter, in place too where declared, with the same bits everywhere;
 * and proved exactly by verify. */
void expect_proved(const struct tt_sched *s);
/* The text contains the words. */
void expect_says(const char *text, const char *words);

uint64_t op_chunks(const struct tt_slice *sl, const struct tt_op *op);
/* Chunks that the rank sends (or receives) in all. */
uint64_t chunks_moved(const struct tt_sched *s, uint32_t rank, bool sent);
#endif
