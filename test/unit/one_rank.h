/* one_rank.h - a communicator of one rank for a group of tests: cmocka's set-up and tear-down. */
#ifndef TEST_ONE_RANK_H
#define TEST_ONE_RANK_H

#include "comm/comm.h"

static struct tt_comm *comm;

static int open_comm(void **state)
{
    struct tt_comm_config c = {.boot = {.rank = 0, .size = 1}, .timeout_ns = 1000000000};
    struct tutti_error err;
    (void)state;
    return tt_comm_open(&c, &comm, &err) ? -1 : 0;
}

static int close_comm(void **state)
{
    (void)state;
    tt_comm_close(comm);
    return 0;
}

#endif
