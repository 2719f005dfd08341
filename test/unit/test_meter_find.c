/* Who was slow, from made-up notes: every verdict has a table of calls or links that must lead to it. Times in milliseconds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "meter/meter.h"

enum { RANKS = 4, CALLS = 10 };
#define MS INT64_C(1000000)

static bool same_clock[RANKS];
static struct tt_log_beat beats[RANKS][2][TT_LOG_BEATS];
static struct tt_log_call calls[RANKS][CALLS + 1];
static struct tt_link_stats links[RANKS][RANKS]; /* [to][from] */
static struct tt_rank_finding rank[RANKS];
static int64_t skew[RANKS]; /* of each rank's clock */
static double drift[RANKS]; /* and how fast it grows */

static int64_t clock_of(int r, int64_t t)
{
    return t + skew[r] + (int64_t)((double)t * drift[r]);
}

/* Every rank works work[r], then all wait until the last has entered, then tail[r] more. */
static void make_calls(const int64_t work[RANKS], const int64_t tail[RANKS])
{
    int64_t now[RANKS] = {0}, blocked[RANKS] = {0};
    for (int k = 0; k <= CALLS; k++) {
        int64_t last = 0;
        for (int r = 0; r < RANKS; r++) {
            now[r] += k ? work[r] * MS : 0;
            last = now[r] > last ? now[r] : last;
        }
        for (int r = 0; r < RANKS; r++) {
            int64_t end = k ? last + tail[r] * MS : now[r];
            calls[r][k] = (struct tt_log_call){
                .start_ns = clock_of(r, now[r]), .wait_ns = clock_of(r, now[r]), .end_ns = clock_of(r, end), .blocked_ns = blocked[r]};
            blocked[r] += end - now[r];
            now[r] = end;
        }
    }
    for (int r = 0; r < RANKS; r++)
        for (int e = 0; e < 2; e++)
            for (int i = 0; i < TT_LOG_BEATS; i++) {
                int64_t t = (e ? 1000 : -10) * MS + i * MS;
                beats[r][e][i] = (struct tt_log_beat){clock_of(r, t - r * 1000), clock_of(r, t + MS / 10 + r * 500)};
            }
}

static void make_links(uint64_t mbyte_per_s)
{
    for (int a = 0; a < RANKS; a++)
        for (int b = 0; b < RANKS; b++)
            links[a][b] = a == b ? (struct tt_link_stats){0} : (struct tt_link_stats){.bytes = 100 << 20, .rate = mbyte_per_s * 1000000};
}

static struct tt_findings find(void)
{
    int64_t scratch[RANKS];
    struct tt_evidence e = {.ranks = RANKS, .calls = CALLS, .same_clock = same_clock, .beats = beats, .log = calls[0], .links = links[0]};
    struct tt_findings f = {.rank = rank};
    tt_meter_find_slow(&e, scratch, &f);
    return f;
}

static int reset(void **state)
{
    (void)state;
    memset(links, 0, sizeof links);
    memset(skew, 0, sizeof skew);
    memset(drift, 0, sizeof drift);
    for (int r = 0; r < RANKS; r++)
        same_clock[r] = true;
    make_calls((int64_t[]){5, 5, 5, 5}, (int64_t[]){2, 2, 2, 2});
    return 0;
}

static void nobody(void **state)
{
    (void)state;
    struct tt_findings f = find();
    assert_int_equal(f.why, TT_SLOW_NOBODY);
    assert_true(f.link_rate <= 0 && f.usual_rate <= 0);
    make_links(100);
    f = find();
    assert_int_equal(f.why, TT_SLOW_NOBODY);
    assert_true(f.usual_rate == 1e8 && f.link_rate == 1e8);
    for (int r = 0; r < RANKS; r++) {
        assert_int_equal(rank[r].in_calls_ns, CALLS * 2 * MS);
        assert_int_equal(rank[r].late_ns, 0);
    }
}

static void late(void **state)
{
    (void)state;
    make_calls((int64_t[]){5, 5, 25, 6}, (int64_t[]){2, 2, 2, 2});
    struct tt_findings f = find();
    assert_int_equal(f.why, TT_SLOW_LATE);
    assert_int_equal(f.slowest, 2);
    assert_int_equal(rank[2].late_calls, CALLS);
    assert_int_equal(rank[2].late_ns, CALLS * ((20 + 20 + 19) * MS / 3));
    assert_int_equal(rank[0].awaited_ns, 0);
    assert_int_equal(rank[3].late_ns, CALLS * (2 * MS / 3)); /* the two that were a millisecond earlier, over three */
}

/* Rank 1 enters late because the call before ended late for it: that is not its work's fault. */
static void inherited(void **state)
{
    (void)state;
    make_calls((int64_t[]){5, 5, 5, 5}, (int64_t[]){2, 22, 2, 2});
    struct tt_findings f = find();
    assert_true(rank[1].awaited_ns > CALLS / 2 * 20 * MS);
    assert_int_equal(rank[1].late_ns, 0);
    assert_int_equal(f.why, TT_SLOW_NOBODY);
}

/* A broadcast's root does not wait for a leaf that comes later. */
static void unhurried(void **state)
{
    (void)state;
    make_calls((int64_t[]){5, 5, 5, 5}, (int64_t[]){2, 2, 2, 2});
    for (int k = 1; k <= CALLS; k++) {
        calls[3][k].start_ns += 30 * MS;
        calls[3][k].wait_ns += 30 * MS;
        calls[3][k].end_ns += 30 * MS;
    }
    find();
    assert_int_equal(rank[3].awaited_ns, 0);
}

/* Hosts whose clocks differ by hours and by a few parts in a hundred thousand. */
static void other_clocks(void **state)
{
    (void)state;
    for (int r = 1; r < RANKS; r++) {
        same_clock[r] = false;
        skew[r] = (r % 2 ? -1 : 1) * r * INT64_C(7200000) * MS;
        drift[r] = r * 2e-5;
    }
    make_calls((int64_t[]){5, 5, 25, 5}, (int64_t[]){2, 2, 2, 2});
    struct tt_findings f = find();
    assert_int_equal(f.why, TT_SLOW_LATE);
    assert_int_equal(f.slowest, 2);
    assert_true(rank[2].late_ns > CALLS * 19 * MS && rank[2].late_ns < CALLS * 21 * MS);
    assert_true(rank[0].awaited_ns < CALLS * MS && rank[1].awaited_ns < CALLS * MS);
}

/* All links of rank 3 are slow, in a ring and with everybody talking to everybody. */
static void slow_host(void **state)
{
    (void)state;
    for (int ring = 0; ring < 2; ring++) {
        make_links(100);
        for (int a = 0; a < RANKS; a++)
            for (int b = 0; b < RANKS; b++) {
                if (a == 3 || b == 3)
                    links[a][b].rate = 25000000;
                if (ring && a != (b + 1) % RANKS)
                    links[a][b].bytes = 0;
            }
        struct tt_findings f = find();
        assert_int_equal(f.why, TT_SLOW_SENDING);
        assert_int_equal(f.slowest, 3);
        assert_true(f.link_from == 3 || f.link_to == 3);
        assert_true(f.link_rate == 25e6 && f.usual_rate == 100e6);
        assert_int_equal(rank[3].slow_ns / MS, 3145); /* 100 MiB at 25 and at 100 MB/s: 4194.304 - 1048.576 */
        assert_int_equal(rank[0].slow_ns, 0);         /* sends slowly to rank 3 only */
    }
}

static void slow_link(void **state)
{
    (void)state;
    make_links(100);
    links[2][1].rate = 20000000; /* from 1 to 2 */
    struct tt_findings f = find();
    assert_int_equal(f.why, TT_SLOW_SENDING);
    assert_int_equal(f.slowest, 1);
    assert_int_equal(f.link_from, 1);
    assert_int_equal(f.link_to, 2);
    assert_int_equal(rank[2].slow_ns, 0);
    links[2][1].bytes = 1000; /* too little to tell */
    f = find();
    assert_int_equal(f.why, TT_SLOW_NOBODY);
    assert_true(f.link_rate == 100e6);
}

/* The larger loss decides. */
static void both(void **state)
{
    (void)state;
    make_calls((int64_t[]){25, 5, 5, 5}, (int64_t[]){2, 2, 2, 2});
    make_links(100);
    for (int a = 0; a < RANKS; a++)
        links[a][3].rate = links[3][a].rate = 25000000;
    struct tt_findings f = find(); /* 200 ms late, 3 s slow */
    assert_int_equal(f.slowest, 3);
    for (int a = 0; a < RANKS; a++)
        for (int b = 0; b < RANKS; b++)
            links[a][b].bytes /= 100;
    make_calls((int64_t[]){25, 5, 5, 5}, (int64_t[]){2, 2, 2, 2});
    f = find(); /* 30 ms slow */
    assert_int_equal(f.slowest, 0);
    assert_int_equal(f.why, TT_SLOW_LATE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test_setup(nobody, reset),       cmocka_unit_test_setup(late, reset),
                                       cmocka_unit_test_setup(inherited, reset),    cmocka_unit_test_setup(unhurried, reset),
                                       cmocka_unit_test_setup(other_clocks, reset), cmocka_unit_test_setup(slow_host, reset),
                                       cmocka_unit_test_setup(slow_link, reset),    cmocka_unit_test_setup(both, reset)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
