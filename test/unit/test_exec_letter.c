/* Messages between two ranks of a context: short and long, asked for before and after they come, from anybody, by tag; many that nobody
 * asks for; with contexts that are not open yet; and the errors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "exec/exec_int.h"
#include "exec_case.h"
#include "fake_transport.h"

enum { RANKS = 4, MOST = 400000, LETTERS = 60 };

static struct fake_world *world;
static struct tt_engine *engines[RANKS];
static struct tt_context *contexts[RANKS];
static const uint32_t members[RANKS] = {2, 0, 3, 1}; /* by rank of the context */

static void open_context(uint32_t r)
{
    struct tt_context_config c = {.key = 5, .members = members, .n = RANKS, .rank = r};
    struct tutti_error err;
    assert_int_equal(tt_exec_context_open(engines[r], &c, &contexts[r], &err), TUTTI_OK);
}

static void open_world(uint64_t seed)
{
    struct tutti_error err;
    world = fake_world_make(RANKS, seed);
    world->nstreams = 1;
    world->header_min = TT_INLINE_MAX;
    for (uint32_t r = 0; r < RANKS; r++) {
        struct tt_engine_config c = {.transport = &world->rank[members[r]].base};
        assert_int_equal(tt_exec_engine_make(&c, &engines[r], &err), TUTTI_OK);
        contexts[r] = NULL;
    }
}

static void close_world(void)
{
    for (uint32_t r = 0; r < RANKS; r++) {
        tt_exec_context_close(contexts[r]);
        tt_exec_engine_free(engines[r]);
    }
    fake_world_free(world);
}

static void turn(uint32_t times)
{
    for (uint32_t i = 0; i < times; i++)
        tt_exec_engine_progress(engines[tt_rng_below(&world->rng, RANKS)]);
}

static bool is_done(const struct tt_letter *l)
{
    struct tutti_error err = {0};
    tutti_status st = tt_exec_letter_test(l, &err);
    if (st < 0)
        fail_msg("%s", err.text);
    return st == TUTTI_OK;
}

static void until_done(const struct tt_letter *l)
{
    for (uint32_t i = 0; !is_done(l); i++) {
        turn(RANKS);
        assert_true(i < 500000);
    }
}

static void begin(uint32_t r, struct tt_letter *l)
{
    struct tutti_error err = {0};
    tutti_status st = tt_exec_letter_start(contexts[r], l, &err);
    if (st)
        fail_msg("%s", err.text);
}

static unsigned char byte_of(uint32_t from, uint32_t to, uint32_t number, uint64_t i)
{
    return (unsigned char)(from * 31 + to * 7 + number * 3 + i + (i >> 9));
}

static uint64_t length_of(uint32_t number)
{
    static const uint64_t lengths[] = {0, 1, 100, 2048, 2049, 16384, 16385, 131072, 131073, 300000};
    return lengths[number % countof(lengths)];
}

/* One rank's letters to another: all are sent in order, and received in order of their tags. */
struct lane {
    uint32_t from, to, nsent, nasked;
    struct tt_letter out[LETTERS], in[LETTERS];
    char *sent[LETTERS], *got[LETTERS];
};

/* Tag t is asked for in turns 1, 0, 3, 2, ...: letters overtake each other. */
static uint32_t asked_tag(uint32_t n)
{
    return n ^ 1;
}

static void send_next(struct lane *l)
{
    uint32_t n = l->nsent++;
    l->sent[n] = malloc(MOST);
    for (uint64_t i = 0; i < length_of(n); i++)
        l->sent[n][i] = (char)byte_of(l->from, l->to, n, i);
    l->out[n] = (struct tt_letter){.data = l->sent[n], .bytes = length_of(n), .peer = l->to, .tag = n, .kind = 3, .sends = true};
    begin(l->from, &l->out[n]);
}

static void ask_next(struct lane *l)
{
    uint32_t n = l->nasked++;
    l->got[n] = malloc(MOST);
    l->in[n] = (struct tt_letter){.data = l->got[n], .bytes = MOST, .peer = l->from, .tag = asked_tag(n), .kind = 3};
    begin(l->to, &l->in[n]);
}

static void check_lane(struct lane *l)
{
    for (uint32_t n = 0; n < LETTERS; n++) {
        const struct tt_letter *in = &l->in[n];
        until_done(in);
        until_done(&l->out[n]);
        assert_true(in->from == l->from && in->from_tag == asked_tag(n) && in->got == length_of(in->from_tag));
        for (uint64_t i = 0; i < in->got; i++)
            assert_int_equal((unsigned char)l->got[n][i], byte_of(l->from, l->to, in->from_tag, i));
        free(l->got[n]);
        free(l->sent[n]);
    }
}

static void test_tags(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 12; seed++) {
        static struct lane lanes[RANKS * RANKS];
        uint32_t n = 0, left = 0;
        open_world(seed);
        for (uint32_t a = 0; a < RANKS; a++)
            for (uint32_t b = 0; b < RANKS; b++)
                if (a != b)
                    lanes[n++] = (struct lane){.from = a, .to = b};
        for (uint32_t turns = 0; turns < 2000 || left; turns++) {
            struct lane *l = &lanes[tt_rng_below(&world->rng, n)];
            uint32_t side = (uint32_t)tt_rng_below(&world->rng, 2), r = side ? l->to : l->from;
            if (!contexts[r] && tt_rng_below(&world->rng, 10) == 0)
                open_context(r);
            if (contexts[r] && !side && l->nsent < LETTERS)
                send_next(l);
            if (contexts[r] && side && l->nasked < LETTERS && (seed % 2 || turns > 1000)) /* or: nobody asks for long */
                ask_next(l);
            turn(3);
            left = 0;
            for (uint32_t i = 0; i < n; i++)
                left += 2 * LETTERS - lanes[i].nsent - lanes[i].nasked;
        }
        for (uint32_t i = 0; i < n; i++)
            check_lane(&lanes[i]);
        turn(500);
        close_world();
    }
}

/* Letters of one sender come in order also when any will do; those of all senders come. */
static void test_any(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 20; seed++) {
        uint32_t next[RANKS] = {0}, sent[3 * 40];
        static struct tt_letter out[3 * 40], in;
        open_world(seed);
        for (uint32_t r = 0; r < RANKS; r++)
            open_context(r);
        for (uint32_t i = 0; i < 3 * 40; i++) {
            sent[i] = i / 3;
            out[i] = (struct tt_letter){.data = &sent[i], .bytes = sizeof sent[i], .peer = 0, .tag = i, .sends = true};
            begin(1 + i % 3, &out[i]);
            turn((uint32_t)seed % 5);
        }
        for (uint32_t i = 0; i < 3 * 40; i++) {
            uint32_t got = 0;
            in = (struct tt_letter){.data = &got, .bytes = sizeof got, .peer = TT_ANY, .tag = TT_ANY};
            begin(0, &in);
            until_done(&in);
            assert_true(in.from >= 1 && in.from < RANKS && got == next[in.from] && in.from_tag == 3 * got + in.from - 1);
            next[in.from]++;
        }
        for (uint32_t i = 0; i < 3 * 40; i++)
            until_done(&out[i]);
        turn(500);
        close_world();
    }
}

static void test_cancel(void **state)
{
    char a[4] = "abc", b[4] = "", c[4] = "";
    struct tt_letter first = {.data = b, .bytes = 4, .peer = TT_ANY, .tag = 1}, second = {.data = c, .bytes = 4, .peer = 1, .tag = 1};
    struct tt_letter out = {.data = a, .bytes = 4, .peer = 0, .tag = 1, .sends = true};
    (void)state;
    open_world(1);
    open_context(0);
    open_context(1);
    begin(0, &first);
    begin(0, &second);
    assert_true(tt_exec_letter_cancel(&first));
    begin(1, &out);
    until_done(&second);
    assert_string_equal(c, "abc");
    assert_string_equal(b, "");
    assert_false(tt_exec_letter_cancel(&second));
    close_world();
}

/* Too long, another kind, not exactly so long: both sides hear of it. */
static void test_mismatch(void **state)
{
    static const struct tt_letter bad[] = {{.bytes = 9, .peer = 1, .tag = 1},
                                           {.bytes = 10, .peer = 1, .tag = 1, .kind = 2},
                                           {.bytes = 11, .peer = TT_ANY, .tag = 1, .exact = true}};
    (void)state;
    for (size_t i = 0; i < 2 * countof(bad); i++) {
        char data[16] = "", got[16];
        struct tt_letter out = {.data = data, .bytes = 10, .peer = 0, .tag = 1, .sends = true}, in = bad[i / 2];
        struct tutti_error err;
        open_world(i);
        open_context(0);
        open_context(1);
        in.data = got;
        if (i % 2) {
            begin(1, &out);
            turn(500);
            assert_int_equal(tt_exec_letter_start(contexts[0], &in, &err), TUTTI_ERR_DIFFERS);
        } else {
            begin(0, &in);
            begin(1, &out);
        }
        turn(1000);
        assert_int_equal(tt_exec_letter_test(&in, &err), TUTTI_ERR_DIFFERS);
        assert_int_equal(tt_exec_engine_fault(engines[0])->peer, members[1]);
        const struct tt_exec_engine_fault *f = tt_exec_engine_fault(engines[1]);
        assert_true(f->kind == TT_FAULT_MISMATCH && f->letter == TT_LETTER_OUT && f->seq == 1 && f->mine == 10);
        assert_true(f->theirs == ((uint64_t)bad[i / 2].kind << 48 | bad[i / 2].bytes));
        close_world();
    }
}

/* A peer that closes with a letter to come, or to take, is named. */
static void test_closed(void **state)
{
    (void)state;
    for (int sends = 0; sends < 2; sends++) {
        static char data[100000];
        struct tt_letter l = {.data = data, .bytes = sizeof data, .peer = 1, .tag = 1, .sends = sends != 0};
        struct tt_letter hello = {.data = data, .bytes = 1, .peer = 0, .tag = 9, .sends = true},
                         heard = {.data = data, .bytes = 1, .peer = 1, .tag = 9};
        struct tutti_error err;
        open_world(3);
        open_context(0);
        open_context(1);
        begin(1, &hello);
        begin(0, &heard);
        until_done(&heard);
        begin(0, &l);
        turn(300);
        tt_exec_context_close(contexts[1]);
        contexts[1] = NULL;
        turn(500);
        assert_int_equal(tt_exec_letter_test(&l, &err), TUTTI_ERR_PEER);
        assert_int_equal(tt_exec_engine_fault(engines[0])->peer, members[1]);
        close_world();
    }
}

/* After a fault the receives that were posted are their owner's: closing the context does not look at them. */
static void test_forgotten(void **state)
{
    char data[4] = "abc", got[4] = "", other[4];
    struct tt_letter out = {.data = data, .bytes = 4, .peer = 0, .tag = 1, .sends = true},
                     in = {.data = got, .bytes = 3, .peer = 1, .tag = 1};
    struct tt_letter gone = {.data = other, .bytes = 4, .peer = TT_ANY, .tag = 2};
    struct tutti_error err;
    (void)state;
    open_world(1);
    open_context(0);
    open_context(1);
    begin(0, &gone);
    begin(0, &in);
    begin(1, &out);
    turn(1000);
    assert_int_equal(tt_exec_letter_test(&gone, &err), TUTTI_ERR_DIFFERS);
    assert_string_equal(got, "");
    memset(&gone, 1, sizeof gone); /* as if it were posted, with addresses of nothing */
    close_world();
}

/* Letters that there is room for need no more of it, all at the same time. */
static void test_prepared(void **state)
{
    enum { N = 100 };
    static struct tt_letter out[N], in[N];
    static char sent[N][20000], got[N][20000];
    struct tutti_error err;
    (void)state;
    open_world(1);
    open_context(0);
    open_context(1);
    for (uint32_t i = 0; i < N; i++) {
        assert_int_equal(tt_exec_letter_prepare(contexts[0], i % 2 ? 1 : TT_ANY, &err), TUTTI_OK);
        assert_int_equal(tt_exec_letter_prepare(contexts[1], 0, &err), TUTTI_OK);
        in[i] = (struct tt_letter){.data = got[i], .bytes = sizeof got[i], .peer = i % 2 ? 1 : TT_ANY, .tag = i};
        out[i] = (struct tt_letter){.data = sent[i], .bytes = sizeof sent[i], .peer = 0, .tag = i, .sends = true};
        sent[i][0] = (char)i;
    }
    assert_int_equal(tt_exec_letter_prepare(contexts[0], 0, &err), TUTTI_ERR_RANGE);
    assert_int_equal(tt_exec_letter_prepare(contexts[0], RANKS, &err), TUTTI_ERR_RANGE);
    struct tt_letter **ids[2] = {engines[0]->by_id, engines[1]->by_id};
    uint32_t nids = engines[0]->nids;
    assert_true(nids >= N && engines[1]->nids >= N && contexts[0]->peers[1] && contexts[1]->peers[0]);
    for (uint32_t i = 0; i < N; i++)
        begin(0, &in[i]);
    for (uint32_t i = 0; i < N; i++)
        begin(1, &out[i]);
    for (uint32_t i = 0; i < N; i++) {
        until_done(&out[i]);
        until_done(&in[i]);
        assert_int_equal(got[i][0], i);
        tt_exec_letter_forget(contexts[0]);
        tt_exec_letter_forget(contexts[1]);
    }
    assert_true(engines[0]->by_id == ids[0] && engines[1]->by_id == ids[1] && engines[0]->nids == nids);
    close_world();
}

/* Rank 1 sends the last piece of its letter once more than it should; short enough to go without a cookie. */
static void forge_last(const struct tt_letter *in, uint32_t number)
{
    static char junk[100];
    struct tt_transport *t = &world->rank[members[1]].base;
    const struct tt_tag tag = {.request = in->id, .message = number, .comm = contexts[1]->peers[0]->comm, .channel = TT_XCH_BODY};
    const struct iovec iov = {.iov_base = junk, .iov_len = sizeof junk};
    tutti_status st = TUTTI_IN_PROGRESS;
    for (uint32_t i = 0; st == TUTTI_IN_PROGRESS && i < 1000; i++) {
        st = t->ops->send(t, members[0], &tag, &iov, 1, 0);
        tt_exec_engine_progress(engines[0]);
    }
    assert_int_equal(st, TUTTI_OK);
}

/* A piece that comes twice is an error that names its sender, the piece and the tag; counted twice, it would end a letter that has holes. */
static void test_repeated(void **state)
{
    static char sent[2 * TT_XPIECE + 100], got[2 * TT_XPIECE + 100];
    (void)state;
    for (uint64_t seed = 0; seed < 8; seed++) {
        struct tt_letter out = {.data = sent, .bytes = sizeof sent, .peer = 0, .tag = 7, .sends = true},
                         in = {.data = got, .bytes = sizeof got, .peer = 1, .tag = 7};
        struct tutti_error err = {0};
        open_world(seed);
        open_context(0);
        open_context(1);
        begin(0, &in);
        begin(1, &out);
        for (uint32_t i = 0; in.id == TT_XNO; i++) { /* until rank 0 has the envelope */
            tt_exec_engine_progress(engines[i % 2]);
            assert_true(i < 10000);
        }
        forge_last(&in, 2);
        forge_last(&in, 2);
        for (uint32_t i = 0; i < 2000; i++)
            tt_exec_engine_progress(engines[0]);
        assert_int_equal(tt_exec_letter_test(&in, &err), TUTTI_ERR_PEER);
        assert_string_equal(err.text, "rank 0 sent piece 2 of its message with tag 7 twice");
        close_world();
    }
}

/* Pieces that overtake each other on several streams are not taken for repeated ones. */
static void test_overtaking(void **state)
{
    enum { BYTES = 40 * TT_XPIECE + 100 };
    char *sent = malloc(BYTES), *got = calloc(1, BYTES);
    (void)state;
    for (uint64_t i = 0; i < BYTES; i++)
        sent[i] = (char)byte_of(1, 0, 0, i);
    for (uint64_t seed = 0; seed < 8; seed++) {
        struct tt_letter out = {.data = sent, .bytes = BYTES, .peer = 0, .tag = 7, .sends = true},
                         in = {.data = got, .bytes = BYTES, .peer = 1, .tag = 7};
        open_world(seed);
        world->nstreams = FAKE_STREAMS;
        world->streams = realloc(world->streams, (size_t)RANKS * RANKS * FAKE_STREAMS * sizeof *world->streams);
        memset(world->streams, 0, (size_t)RANKS * RANKS * FAKE_STREAMS * sizeof *world->streams);
        open_context(0);
        open_context(1);
        begin(0, &in);
        begin(1, &out);
        until_done(&in);
        until_done(&out);
        assert_memory_equal(got, sent, BYTES);
        memset(got, 0, BYTES);
        close_world();
    }
    free(sent);
    free(got);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tags),   cmocka_unit_test(test_any),       cmocka_unit_test(test_cancel),   cmocka_unit_test(test_mismatch),
        cmocka_unit_test(test_closed), cmocka_unit_test(test_forgotten), cmocka_unit_test(test_prepared),
        cmocka_unit_test(test_repeated), cmocka_unit_test(test_overtaking),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
