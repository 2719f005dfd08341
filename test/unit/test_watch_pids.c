/* Ends of processes: who watches whom, and that a death is told although children of the dead rank keep
 * its connections open. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <poll.h>
#include <sys/syscall.h>

#include "boot_ranks.h"
#include "watch/watch_int.h"

enum { PEERS = 5, LIMIT_MS = 10000 };

/* A process that ends when it is killed. */
static pid_t sleeper(void)
{
    pid_t pid = fork();

    assert_true(pid >= 0);
    while (pid == 0)
        pause();
    return pid;
}

static void end(pid_t pid)
{
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

/* Ranks 0 and 1 on one host, 2 to 4 on another. */
static void hosts(struct tt_boot_peer peers[PEERS], pid_t pids[PEERS])
{
    for (uint32_t r = 0; r < PEERS; r++) {
        pids[r] = sleeper();
        peers[r] = (struct tt_boot_peer){.host_id = r < 2 ? 7 : 8, .pid = (uint32_t)pids[r]};
    }
}

/* The next end that is told; UINT32_MAX: none. */
static uint32_t next_end(struct tt_pids *p, int wait_ms)
{
    struct pollfd fd = {.fd = tt_watch_pids_fd(p), .events = POLLIN};
    uint32_t rank;

    if (tt_watch_pids_take(p, &rank))
        return rank;
    return poll(&fd, 1, wait_ms) == 1 && tt_watch_pids_take(p, &rank) ? rank : UINT32_MAX;
}

static void ranks_watch_each_other(void **state)
{
    (void)state;
    struct tt_boot_peer peers[PEERS];
    struct tt_pids *p[PEERS];
    pid_t pids[PEERS];

    hosts(peers, pids);
    for (uint32_t r = 0; r < PEERS; r++) {
        p[r] = tt_watch_pids_open(peers, r, PEERS);
        assert_non_null(p[r]);
        assert_int_equal(next_end(p[r], 0), UINT32_MAX);
    }
    end(pids[3]);
    assert_int_equal(next_end(p[2], LIMIT_MS), 3); /* the one before it, and from now on that watches 4 */
    end(pids[4]);
    assert_int_equal(next_end(p[2], LIMIT_MS), 4);
    assert_int_equal(next_end(p[3], LIMIT_MS), 4);
    assert_int_equal(next_end(p[2], 0), UINT32_MAX);
    end(pids[1]);
    assert_int_equal(next_end(p[0], LIMIT_MS), 1);
    assert_int_equal(next_end(p[1], 0), UINT32_MAX);
    end(pids[0]);
    assert_int_equal(next_end(p[1], LIMIT_MS), 0);
    end(pids[2]);
    assert_int_equal(next_end(p[4], LIMIT_MS), 2);
    assert_int_equal(next_end(p[4], LIMIT_MS), 3); /* ended before it was watched */
    assert_int_equal(next_end(p[4], 0), UINT32_MAX);
    for (uint32_t r = 0; r < PEERS; r++)
        tt_watch_pids_close(p[r]);
}

static void the_dead_are_told_once(void **state)
{
    (void)state;
    struct tt_boot_peer peers[3];
    pid_t pids[3];
    struct tt_pids *p;

    for (uint32_t r = 0; r < 3; r++) {
        pids[r] = sleeper();
        peers[r] = (struct tt_boot_peer){.host_id = 7, .pid = (uint32_t)pids[r]};
        end(pids[r]);
    }
    p = tt_watch_pids_open(peers, 0, 3);
    assert_int_equal(next_end(p, 0), 1);
    assert_int_equal(next_end(p, 0), 2);
    assert_int_equal(next_end(p, 0), UINT32_MAX);
    tt_watch_pids_close(p);
    tt_watch_pids_close(NULL);
    assert_int_equal(tt_watch_pids_fd(NULL), -1);
    assert_false(tt_watch_pids_take(NULL, &peers[0].pid));
}

/* ---- a rank that dies while a child of it holds everything open ---- */

struct job {
    uint16_t port;
    uint32_t size, odd;
};

static void live_until_told(uint32_t rank, void *arg)
{
    const struct job *j = arg;
    struct tt_boot_config c = loopback_config(j->size, j->port, 10000);
    struct tt_boot *b = NULL;
    struct tt_watch *w = NULL;
    struct tt_verdict v;
    uint64_t limit = tt_now_ns() + UINT64_C(15000000000);

    c.rank = rank;
    if (tt_boot_open(&c, &b, &outcomes[rank].err) || tt_watch_open(b, UINT64_C(20000000000), &w, &outcomes[rank].err))
        _exit(3);
    if (rank == j->odd) {
        pid_t child = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL); /* no handlers run */
        while (child == 0)
            pause();
        outcomes[rank].value = child;
        for (uint32_t r = 0; r < j->size; r++)
            await_stage(r, r == rank ? 0 : 1);
        raise(SIGKILL);
    }
    reach_stage(rank, 1);
    while (!tt_watch_verdict(w, &v) && tt_now_ns() < limit)
        usleep(1000);
    outcomes[rank].value = tt_watch_verdict(w, &v) && v.blame == TT_BLAME_DEAD && v.culprit == j->odd;
    snprintf(outcomes[rank].err.text, sizeof outcomes[rank].err.text, "%s", tt_watch_verdict(w, &v) ? v.text : "nothing");
    tt_watch_close(w);
    tt_boot_close(b);
}

static void children_do_not_hide_a_death(void **state)
{
    (void)state;
    for (uint32_t odd = 0; odd < 3; odd++) {
        struct job j = {.port = free_port(), .size = 3, .odd = odd};
        pid_t pid[3];
        ranks_setup();
        for (uint32_t r = 0; r < 3; r++)
            pid[r] = rank_start(r, live_until_told, &j);
        for (uint32_t r = 0; r < 3; r++)
            rank_end(r, pid[r], r == odd ? SIGKILL : 0);
        assert_true(outcomes[odd].value > 0);
        kill(outcomes[odd].value, SIGKILL); /* the child, an orphan now */
        for (uint32_t r = 0; r < 3; r++) {
            if (r == odd)
                continue;
            check_clean(r);
            if (outcomes[r].value != 1)
                fail_msg("rank %u of a job whose rank %u died: %s", r, odd, outcomes[r].err.text);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_watch_each_other),
        cmocka_unit_test(the_dead_are_told_once),
        cmocka_unit_test(children_do_not_hide_a_death),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
