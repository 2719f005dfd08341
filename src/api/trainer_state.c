/* trainer_state.c - the public functions of what a checkpoint needs of a trainer (the optimizer's
 * state, counts of updates), and of what Python asks about policies and rounding. */
#include "api/api.h"

#include "train/train.h"

const char *tutti_trainer_state_name(const struct tutti_trainer *trainer, size_t index, size_t k)
{
    return tt_train_state_name(tt_api_trainer_see(trainer, __func__), tt_api_trainer_index(index),
                               tt_api_trainer_index(k));
}

size_t tutti_trainer_state_bytes(const struct tutti_trainer *trainer, size_t index)
{
    return tt_train_state_bytes(tt_api_trainer_see(trainer, __func__), tt_api_trainer_index(index));
}

tutti_status tutti_trainer_state_get(struct tutti_trainer *trainer, size_t index, size_t k,
                                     void *data, struct tutti_error *err)
{
    struct tt_trainer *t = tt_api_trainer_find(trainer, __func__, err);
    return t ? tt_train_state_get(t, tt_api_trainer_index(index), tt_api_trainer_index(k), data,
                                  err)
             : TUTTI_ERR_ARG;
}

tutti_status tutti_trainer_state_set(struct tutti_trainer *trainer, size_t index, size_t k,
                                     const void *data, struct tutti_error *err)
{
    struct tt_trainer *t = tt_api_trainer_find(trainer, __func__, err);
    return t ? tt_train_state_set(t, tt_api_trainer_index(index), tt_api_trainer_index(k), data,
                                  err)
             : TUTTI_ERR_ARG;
}

uint64_t tutti_trainer_updates(struct tutti_trainer *trainer, size_t index)
{
    return tt_train_updates(tt_api_trainer_see(trainer, __func__), tt_api_trainer_index(index));
}

tutti_status tutti_trainer_set_updates(struct tutti_trainer *trainer, size_t index,
                                       uint64_t updates, struct tutti_error *err)
{
    struct tt_trainer *t = tt_api_trainer_find(trainer, __func__, err);
    return t ? tt_train_set_updates(t, tt_api_trainer_index(index), updates, err) : TUTTI_ERR_ARG;
}

tutti_status tutti_policy_describe(const char *policy, struct tutti_policy_info *ret_info,
                                   struct tutti_error *err)
{
    tutti_status st = api_given(err, "ret_info", ret_info);
    int kind = policy && !st ? tt_policy_find(policy, err) : (int)TT_POLICY_DEAR;
    if (st || kind < 0)
        return TUTTI_ERR_ARG;
    *ret_info = (struct tutti_policy_info){.deferred = tt_policy_crosses((enum tt_policy_kind)kind),
                                           .sharded = kind == TT_POLICY_DEAR_SHARDED};
    return TUTTI_OK;
}

tutti_status tutti_half_round(tutti_dtype dtype, const float *from, float *lost, void *to,
                              size_t count)
{
    tutti_status st = count ? api_given(NULL, "from", from, "to", to) : TUTTI_OK;
    if (!st && count > PTRDIFF_MAX / sizeof *from)
        st = tt_api_bad(__func__, NULL, TUTTI_ERR_RANGE,
                        "%zu elements are more than memory can hold", count);
    if (!st && !tt_train_half_round(dtype, from, lost, to, count))
        st = tt_api_bad(__func__, NULL, TUTTI_ERR_ARG, "f16 or bf16 is needed, not data type %d",
                        (int)dtype);
    return st;
}
