/* messages.c - messages between two ranks, on real ranks: order, tags, any source and any tag, lengths around every limit of the engine,
 * requests that are started again or given back, two threads, and random traffic with collectives under way (the seed is printed when
 * something is wrong). With an argument something fails: every rank must be told in time, and who is to blame.
 *
 *     messages [differs | type | dies | late | behind] [seed] */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tutti/tutti.h>
#include <unistd.h>

enum { MOST = 16, SHORT = 16 << 10, PIECE = 128 << 10 };

static struct tutti_comm *comm;
static uint32_t rank, ranks, seed = 1;

static void check(int line, bool ok, const char *what)
{
    if (ok)
        return;
    fprintf(stderr, "messages.c:%d: rank %u, seed %u: %s (%s)\n", line, rank, seed, what, tutti_comm_last_error(comm)->text);
    tutti_comm_abort(comm, "a test failed");
    exit(1);
}
#define CHECK(ok) check(__LINE__, (ok), #ok)

static unsigned mix(unsigned a, unsigned b, unsigned c)
{
    unsigned x = a * 2654435761u + b * 40503u + c * 9973u + 1;
    x ^= x >> 13;
    return x * 2246822519u >> 9;
}

static void fill(unsigned char *at, size_t bytes, unsigned of)
{
    for (size_t i = 0; i < bytes; i++)
        at[i] = (unsigned char)mix(of, (unsigned)i, 5);
}

static bool holds(const unsigned char *at, size_t bytes, unsigned of)
{
    for (size_t i = 0; i < bytes; i++)
        if (at[i] != (unsigned char)mix(of, (unsigned)i, 5))
            return false;
    return true;
}

static struct tutti_request *sending(const void *data, size_t bytes, uint32_t peer, uint32_t tag)
{
    struct tutti_request *r;
    CHECK(tutti_send_init(comm, data, bytes, TUTTI_U8, peer, tag, &r) == TUTTI_OK);
    CHECK(tutti_request_start(r) == TUTTI_OK);
    return r;
}

static struct tutti_request *receiving(void *data, size_t bytes, uint32_t peer, uint32_t tag)
{
    struct tutti_request *r;
    CHECK(tutti_recv_init(comm, data, bytes, TUTTI_U8, peer, tag, &r) == TUTTI_OK);
    CHECK(tutti_request_start(r) == TUTTI_OK);
    return r;
}

static void finish(struct tutti_request *r)
{
    CHECK(tutti_request_wait(r) == TUTTI_OK);
    tutti_request_free(r);
}

/* Everybody to everybody, all at the same time, lengths where the engine changes its ways; then the same requests again. */
static void test_lengths(void)
{
    static const size_t lengths[] = {0, 1, 2047, 2048, 2049, SHORT, SHORT + 1, PIECE - 1, PIECE, PIECE + 1, 3 * PIECE + 7};
    enum { N = sizeof lengths / sizeof lengths[0] };
    static unsigned char *out[MOST][N], *in[MOST][N];
    struct tutti_request *requests[2 * MOST * N];
    size_t n = 0;
    for (uint32_t r = 0; r < ranks; r++)
        for (unsigned k = 0; k < N && r != rank; k++) {
            out[r][k] = malloc(lengths[k] + 1);
            in[r][k] = malloc(lengths[k] + 1);
            CHECK(tutti_send_init(comm, out[r][k], lengths[k], TUTTI_U8, r, 0, &requests[n++]) == TUTTI_OK);
            CHECK(tutti_recv_init(comm, in[r][k], lengths[k], TUTTI_U8, r, 0, &requests[n++]) == TUTTI_OK);
        }
    for (unsigned round = 0; round < 2; round++) {
        for (uint32_t r = 0; r < ranks; r++)
            for (unsigned k = 0; k < N && r != rank; k++)
                fill(out[r][k], lengths[k], mix(rank, r, k + 100 * round));
        for (size_t i = 0; i < n; i++)
            CHECK(tutti_request_start(requests[i]) == TUTTI_OK);
        for (size_t i = n; i-- > 0;)
            CHECK(tutti_request_wait(requests[i]) == TUTTI_OK);
        for (uint32_t r = 0; r < ranks; r++)
            for (unsigned k = 0; k < N && r != rank; k++)
                CHECK(holds(in[r][k], lengths[k], mix(r, rank, k + 100 * round)));
    }
    for (size_t i = 0; i < n; i++)
        tutti_request_free(requests[i]);
    for (uint32_t r = 0; r < ranks; r++)
        for (unsigned k = 0; k < N; k++) {
            free(out[r][k]);
            free(in[r][k]);
            out[r][k] = in[r][k] = NULL;
        }
}

/* Rank 0 takes what comes, with its source; what one rank sends comes in order. */
static void test_any(void)
{
    enum { N = 50 };
    uint32_t next[MOST] = {0}, source, tag, word[2] = {rank, 0};
    struct tutti_error err;
    for (uint32_t i = 0; i < N && rank != 0; i++) {
        word[1] = i;
        CHECK(tutti_send(comm, word, 2, TUTTI_U32, 0) == TUTTI_OK);
    }
    for (uint32_t i = 0; i < N * (ranks - 1) && rank == 0; i++) {
        CHECK(tutti_recv_any(comm, word, 2, TUTTI_U32, &source) == TUTTI_OK);
        CHECK(source < ranks && word[0] == source && word[1] == next[source]++);
    }
    /* Any tag: the first of them; the tag is told. */
    CHECK(tutti_barrier(comm) == TUTTI_OK);
    struct tutti_request *r = NULL;
    for (uint32_t i = 0; i < 3 && rank == 1; i++)
        finish(sending(&i, 4, 0, 70 + i));
    for (uint32_t i = 0; i < 3 && rank == 0; i++) {
        uint32_t got = 9;
        r = receiving(&got, 4, i == 1 ? TUTTI_ANY_SOURCE : 1, TUTTI_ANY_TAG);
        CHECK(tutti_request_wait(r) == TUTTI_OK);
        CHECK(tutti_request_source(r, &source, &tag, &err) == TUTTI_OK && source == 1 && tag == 70 + i && got == i);
        tutti_request_free(r);
    }
    /* Tags overtake each other. */
    uint32_t a = 1, b = 2, x = 0, y = 0;
    if (rank == 1) {
        finish(sending(&a, 4, 0, 1));
        finish(sending(&b, 4, 0, 2));
    } else if (rank == 0) {
        finish(receiving(&y, 4, 1, 2));
        finish(receiving(&x, 4, 1, 1));
        CHECK(x == 1 && y == 2);
    }
}

/* What nothing has come for can be given back, and its buffer stays as it is. */
static void test_given_back(void)
{
    unsigned char in[8] = {1, 2, 3, 4, 5, 6, 7, 8}, out[8] = {9};
    uint32_t peer = rank ^ 1, source;
    struct tutti_error err;
    if (peer < ranks) {
        struct tutti_request *r = receiving(in, 8, TUTTI_ANY_SOURCE, 55), *s;
        CHECK(tutti_request_test(r) == TUTTI_IN_PROGRESS);
        CHECK(tutti_request_source(r, &source, NULL, &err) == TUTTI_ERR_ARG);
        tutti_request_free(r);
        CHECK(in[0] == 1 && in[7] == 8);
        r = receiving(in, 8, peer, 5);
        s = sending(out, 8, peer, 5);
        finish(r);
        CHECK(in[0] == 9 && in[7] == 0);
        CHECK(tutti_request_source(s, &source, NULL, &err) == TUTTI_ERR_ARG);
        finish(s);
    }
}

static void test_refused(void)
{
    struct tutti_request *r;
    uint32_t source;
    char x = 0;
    if (ranks == 1) {
        CHECK(tutti_recv_any(comm, &x, 1, TUTTI_U8, &source) == TUTTI_ERR_RANGE);
        CHECK(tutti_recv_init(comm, &x, 1, TUTTI_U8, TUTTI_ANY_SOURCE, 0, &r) == TUTTI_ERR_RANGE);
        return;
    }
    uint32_t peer = rank ? 0 : 1;
    CHECK(tutti_send_init(comm, &x, 1, TUTTI_U8, rank, 0, &r) == TUTTI_ERR_RANGE);
    CHECK(tutti_send_init(comm, &x, 1, TUTTI_U8, TUTTI_ANY_SOURCE, 0, &r) == TUTTI_ERR_RANGE);
    CHECK(tutti_send_init(comm, &x, 1, TUTTI_U8, peer, TUTTI_ANY_TAG, &r) == TUTTI_ERR_RANGE);
    CHECK(tutti_recv_init(comm, NULL, 1, TUTTI_U8, peer, 0, &r) == TUTTI_ERR_ARG);
    CHECK(tutti_recv_init(comm, &x, SIZE_MAX / 2, TUTTI_U8, peer, 0, &r) == TUTTI_ERR_RANGE);
    CHECK(tutti_recv(comm, &x, 1, TUTTI_U8, ranks) == TUTTI_ERR_RANGE);
    CHECK(tutti_recv_init(comm, &x, 1, TUTTI_U8, peer, 77, &r) == TUTTI_OK);
    CHECK(tutti_request_start(r) == TUTTI_OK && tutti_request_start(r) == TUTTI_ERR_ARG);
    tutti_request_free(r);
}

/* One thread waits for the answers to what another one sends, on the same communicator. */
enum { ANSWERS = 200 };
static void *take_answers(void *arg)
{
    (void)arg;
    for (uint32_t i = 0, got; i < ANSWERS; i++)
        CHECK(tutti_recv(comm, &got, 1, TUTTI_U32, 1) == TUTTI_OK && got == i);
    return NULL;
}

static void test_threads(void)
{
    pthread_t thread;
    if (rank == 0)
        CHECK(pthread_create(&thread, NULL, take_answers, NULL) == 0);
    for (uint32_t i = 0; i < ANSWERS; i++) {
        uint32_t word = i;
        if (rank == 0)
            CHECK(tutti_send(comm, &word, 1, TUTTI_U32, 1) == TUTTI_OK);
        else if (rank == 1)
            CHECK(tutti_recv(comm, &word, 1, TUTTI_U32, 0) == TUTTI_OK && tutti_send(comm, &word, 1, TUTTI_U32, 0) == TUTTI_OK);
    }
    if (rank == 0)
        pthread_join(thread, NULL);
}

/* ---- random traffic ----
 *
 * All ranks know the whole list. A rank starts its ends in the order of the list and has at most `window` under way, so that the first
 * message that is not done has both its ends started: nobody waits for ever. From time to time a sum is started, and finished at the next
 * one. Messages of tag 9 have one length and come from any source: what they hold says which one it is. */
enum { LIST = 400, WINDOW = 64, EVERY = 37, ANY = 9, ANY_BYTES = 3000 };
struct message {
    uint32_t from, to, tag;
    size_t bytes;
};
static struct message list[LIST];
struct end {
    struct tutti_request *request;
    unsigned char *data;
    const struct message *message;
    bool sends;
};

static void make_list(void)
{
    static const size_t most[] = {1, 10, 1000, SHORT + 100, PIECE, 5 * PIECE};
    for (unsigned i = 0; i < LIST; i++) {
        struct message *m = &list[i];
        m->from = mix(seed, i, 1) % ranks;
        m->to = (m->from + 1 + mix(seed, i, 2) % (ranks - 1)) % ranks;
        m->tag = mix(seed, i, 3) % 4 ? mix(seed, i, 4) % 3 : ANY;
        m->bytes = m->tag == ANY ? ANY_BYTES : mix(seed, i, 5) % (most[mix(seed, i, 6) % 6] + 1);
    }
}

static void begin_end(struct end *e, const struct message *m)
{
    unsigned number = (unsigned)(m - list);
    e->message = m;
    e->sends = m->from == rank;
    e->data = malloc(m->bytes + 1);
    CHECK(e->data != NULL);
    if (e->sends) {
        fill(e->data, m->bytes, number);
        if (m->tag == ANY)
            memcpy(e->data, &number, sizeof number);
        e->request = sending(e->data, m->bytes, m->to, m->tag);
    } else {
        e->request = receiving(e->data, m->bytes, m->tag == ANY ? TUTTI_ANY_SOURCE : m->from, m->tag);
    }
}

static unsigned seen_any[MOST]; /* number of the last one from this rank, + 1 */

static void finish_end(struct end *e)
{
    const struct message *m = e->message;
    unsigned number = (unsigned)(m - list);
    struct tutti_error err;
    uint32_t source, tag;
    CHECK(tutti_request_wait(e->request) == TUTTI_OK);
    if (!e->sends) {
        CHECK(tutti_request_source(e->request, &source, &tag, &err) == TUTTI_OK && tag == m->tag);
        size_t head = m->tag == ANY ? sizeof number : 0;
        if (head)
            memcpy(&number, e->data, sizeof number);
        CHECK(number < LIST && list[number].to == rank && list[number].tag == tag && list[number].from == source);
        for (size_t i = head; i < m->bytes; i++)
            CHECK(e->data[i] == (unsigned char)mix(number, (unsigned)i, 5));
        if (head) /* they were started in order, and finished in order */
            CHECK(number >= seen_any[source]);
        seen_any[source] = head ? number + 1 : seen_any[source];
    }
    tutti_request_free(e->request);
    free(e->data);
}

static void test_random(void)
{
    static const unsigned windows[] = {1, 2, 7, WINDOW};
    struct end ends[WINDOW];
    unsigned first = 0, n = 0, window = windows[mix(seed, rank, 7) % 4];
    struct tutti_request *sum;
    uint32_t one[3] = {1, rank, 0}, all[3];
    bool summing = false;
    memset(seen_any, 0, sizeof seen_any);
    make_list();
    CHECK(tutti_allreduce_init(comm, one, all, 3, TUTTI_U32, TUTTI_SUM, &sum) == TUTTI_OK);
    for (unsigned i = 0; i < LIST; i++) {
        if (i % EVERY == 0) {
            CHECK(!summing || tutti_request_wait(sum) == TUTTI_OK);
            CHECK(!summing || (all[0] == ranks && all[1] == ranks * (ranks - 1) / 2));
            CHECK(tutti_request_start(sum) == TUTTI_OK);
            summing = true;
        }
        if (list[i].from != rank && list[i].to != rank)
            continue;
        if (n - first == window)
            finish_end(&ends[first++ % WINDOW]);
        begin_end(&ends[n++ % WINDOW], &list[i]);
        if (mix(seed, i, rank) % 8 == 0)
            tutti_request_test(ends[(n - 1) % WINDOW].request);
    }
    while (first < n)
        finish_end(&ends[first++ % WINDOW]);
    CHECK(tutti_request_wait(sum) == TUTTI_OK);
    tutti_request_free(sum);
    CHECK(tutti_barrier(comm) == TUTTI_OK);
}

/* ---- what fails ---- */

static void expect(tutti_status st, tutti_status wanted, const char *words, const char *more)
{
    const char *text = tutti_comm_last_error(comm)->text;
    if (st == wanted && strstr(text, words) && strstr(text, more))
        return;
    fprintf(stderr, "rank %u: status %d and \"%s\": %d and \"%s\", \"%s\" are expected\n", rank, st, text, wanted, words, more);
    _exit(1);
}

/* Ranks 0 and 1 go on when the others have opened: a fault before that would be told by opening. */
static void wait_for_opening(void)
{
    char here = 1;
    for (uint32_t r = 2; r < ranks; r++)
        if (rank < 2)
            CHECK(tutti_recv(comm, &here, 1, TUTTI_U8, r) == TUTTI_OK);
    for (uint32_t to = 0; to < 2 && rank >= 2; to++)
        CHECK(tutti_send(comm, &here, 1, TUTTI_U8, to) == TUTTI_OK);
}

/* Ranks 0 and 1 differ in length or type; the others hear of it in a message of their own. */
static void differ(bool type)
{
    static double data[40000];
    struct tutti_request *r = NULL;
    tutti_status st;
    for (size_t i = 0; i < 40000; i++)
        data[i] = (double)i;
    wait_for_opening();
    if (rank == 0)
        st = type ? tutti_recv(comm, data, 80000, TUTTI_F32, 1) : tutti_recv(comm, data, 40000, TUTTI_F64, 1);
    else if (rank == 1)
        st = tutti_send(comm, data, type ? 40000 : 39999, TUTTI_F64, 0);
    else
        st = tutti_recv_any(comm, data, 1, TUTTI_F64, &rank);
    expect(st, TUTTI_ERR_DIFFERS, type ? "40000 f64" : "39999 f64", type ? "80000 f32" : "40000 f64");
    expect(st, TUTTI_ERR_DIFFERS, "rank 0", "rank 1");
    for (size_t i = 0; i < 40000; i++)
        if (data[i] != (double)i)
            expect(st, TUTTI_OK, "the buffer stays as it was", "");
    expect(tutti_recv_init(comm, data, 1, TUTTI_F64, rank ? 0 : 1, 0, &r), TUTTI_ERR_DIFFERS, "rank 0", "rank 1");
}

/* The last rank dies while the others wait for a message from anybody: they are told that it did. */
static void die(void)
{
    struct tutti_request *r;
    char x = 0, words[16];
    uint32_t source;
    tutti_status st;
    snprintf(words, sizeof words, "rank %u ", ranks - 1);
    CHECK(tutti_barrier(comm) == TUTTI_OK);
    if (rank == ranks - 1)
        _exit(0);
    if (rank == 0) {
        st = tutti_recv_any(comm, &x, 1, TUTTI_U8, &source);
    } else {
        CHECK(tutti_recv_init(comm, &x, 1, TUTTI_U8, TUTTI_ANY_SOURCE, TUTTI_ANY_TAG, &r) == TUTTI_OK);
        tutti_request_start(r);
        while ((st = tutti_request_test(r)) == TUTTI_IN_PROGRESS)
            usleep(1000);
        expect(tutti_request_wait(r), TUTTI_ERR_PEER, words, "is dead");
        tutti_request_free(r);
    }
    expect(st, TUTTI_ERR_PEER, words, "is dead");
}

/* Nobody sends. */
static void wait_in_vain(void)
{
    struct tutti_request *r;
    char x = 0;
    tutti_status st = TUTTI_OK;
    CHECK(tutti_recv_init(comm, &x, 1, TUTTI_U8, TUTTI_ANY_SOURCE, 6, &r) == TUTTI_OK);
    CHECK(tutti_request_start(r) == TUTTI_OK);
    if (rank == 0)
        st = tutti_request_wait(r);
    else
        while ((st = tutti_request_test(r)) == TUTTI_IN_PROGRESS)
            usleep(1000);
    expect(st, TUTTI_ERR_PEER, "(receive of 1 u8 from any rank, tag 6): no rank has sent it", "message 1 ");
    tutti_request_free(r);
}

/* A shorter message behind one that takes longer than the deadline on a slow link: what moves of the
 * long one is no standstill of the other. (One of a few bytes would overtake it.) */
static void wait_behind(void)
{
    enum { LONG = 10 << 20, SHORTER = 100000 };
    unsigned char *data = calloc(2, LONG), *more = data + LONG;
    struct tutti_request *r;
    CHECK(data && ranks == 2 && tutti_barrier(comm) == TUTTI_OK);
    if (rank == 0) {
        fill(more, SHORTER, 3);
        r = sending(data, LONG, 1, 1);
        CHECK(tutti_send(comm, more, SHORTER, TUTTI_U8, 1) == TUTTI_OK);
    } else {
        r = receiving(data, LONG, 0, 1);
        CHECK(tutti_recv(comm, more, SHORTER, TUTTI_U8, 0) == TUTTI_OK && holds(more, SHORTER, 3));
    }
    CHECK(tutti_request_wait(r) == TUTTI_OK);
    tutti_request_free(r);
    free(data);
}

static void run_tests(void)
{
    test_refused();
    if (ranks == 1)
        return;
    test_lengths();
    test_any();
    test_given_back();
    CHECK(tutti_barrier(comm) == TUTTI_OK);
    test_threads();
    for (unsigned i = 0; i < 3; i++, seed++)
        test_random();
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "";
    struct tutti_error err;
    seed = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 1;
    if (tutti_comm_open(NULL, &comm, &err)) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    rank = tutti_comm_rank(comm);
    ranks = tutti_comm_size(comm);
    if (!strcmp(how, "differs") || !strcmp(how, "type")) {
        differ(!strcmp(how, "type"));
    } else if (!strcmp(how, "dies")) {
        die();
    } else if (!strcmp(how, "behind")) {
        wait_behind();
    } else if (!strcmp(how, "late")) {
        wait_in_vain();
    } else {
        struct tutti_comm *world = comm, *half;
        run_tests();
        CHECK(tutti_comm_split(world, (int)rank % 2, -(int)rank, &half, &err) == TUTTI_OK); /* ranks in reverse */
        comm = half;
        rank = tutti_comm_rank(comm);
        ranks = tutti_comm_size(comm);
        run_tests();
        tutti_comm_close(half);
        comm = world;
    }
    tutti_comm_close(comm);
    return 0;
}
