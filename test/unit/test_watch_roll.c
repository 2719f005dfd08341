/* test_watch_roll.c - the roll call's protocol in simulated worlds: ranks die, connections break,
 * ranks are suspected wrongly, the network falls in two, at random moments. The model
 * (test/model) is exhaustive for few ranks; this is the code itself, for up to nine. */
#include <stdlib.h>
#include <string.h>

#include "support.h"
#include "watch/roll.h"

enum { MAX = 9, WAY = 64 };

/* What is on its way from one rank to another, in order. */
struct way {
    struct tt_roll_note note[WAY];
    unsigned len;
};

struct world {
    uint32_t n;
    struct tt_roll roll[MAX];
    bool ended[MAX];
    uint32_t side[MAX]; /* ranks of different sides do not reach each other */
    bool linked[MAX][MAX];
    struct way way[MAX][MAX];
};

static bool reaches(const struct world *w, uint32_t a, uint32_t b)
{
    return w->side[a] == w->side[b];
}

/* Takes what rank r wants to say. */
static void collect(struct world *w, uint32_t r)
{
    struct tt_roll_out *list = w->roll[r].out.data;
    for (size_t i = 0; i < w->roll[r].out.len; i++) {
        struct way *way = &w->way[r][list[i].to];
        assert_true(tt_roll_sane(&list[i].note, w->n));
        if (w->linked[r][list[i].to] && way->len < WAY)
            way->note[way->len++] = list[i].note;
    }
    w->roll[r].out.len = 0;
}

static void link_up(struct world *w, uint32_t a, uint32_t b)
{
    w->linked[a][b] = w->linked[b][a] = true;
    tt_roll_linked(&w->roll[a], b);
    tt_roll_linked(&w->roll[b], a);
    collect(w, a);
    collect(w, b);
}

static void cut_link(struct world *w, uint32_t a, uint32_t b)
{
    w->linked[a][b] = w->linked[b][a] = false;
    w->way[a][b].len = w->way[b][a].len = 0;
}

static bool deliver(struct world *w, uint32_t a, uint32_t b)
{
    struct way *way = &w->way[a][b];
    struct tt_roll_note m;
    if (!way->len || w->ended[b])
        return false;
    m = way->note[0];
    memmove(way->note, way->note + 1, --way->len * sizeof *way->note);
    tt_roll_take(&w->roll[b], a, &m);
    collect(w, b);
    return true;
}

/* What the carrier would find out about rank b, as seen from a. */
static void look(struct world *w, uint32_t a, uint32_t b)
{
    if (a == b || w->ended[a] || w->roll[a].decided)
        return;
    if (!reaches(w, a, b))
        tt_roll_quiet(&w->roll[a], b);
    else if (w->ended[b] && !w->way[b][a].len)
        tt_roll_dead(&w->roll[a], b);
    else if (!w->ended[b] && !w->linked[a][b])
        link_up(w, a, b);
    collect(w, a);
}

/* No two living ranks may have decided differently. */
static void check_views(const struct world *w)
{
    const struct tt_roll_view *v = NULL;
    for (uint32_t r = 0; r < w->n; r++) {
        if (w->ended[r] || !w->roll[r].decided)
            continue;
        if (v)
            assert_memory_equal(v, &w->roll[r].view, sizeof *v);
        v = &w->roll[r].view;
    }
}

/* Without further trouble everything that can arrive does. */
static void calm(struct world *w)
{
    for (int turn = 0; turn < 60; turn++) {
        for (uint32_t a = 0; a < w->n; a++)
            for (uint32_t b = 0; b < w->n; b++) {
                look(w, a, b);
                while (deliver(w, a, b))
                    ;
                /* A rank that decided tells those who come later (boot/succeed.c). */
                if (a != b && !w->ended[a] && !w->ended[b] && reaches(w, a, b) && w->roll[a].decided && !w->roll[b].decided)
                    link_up(w, a, b);
            }
        check_views(w);
    }
}

static void world_begin(struct world *w, uint32_t n)
{
    memset(w, 0, sizeof *w);
    w->n = n;
    for (uint32_t r = 0; r < n; r++) {
        tt_roll_begin(&w->roll[r], &(struct tt_roll_start){.n = n, .me = r});
        collect(w, r);
    }
}

static void world_end(struct world *w)
{
    for (uint32_t r = 0; r < w->n; r++)
        tt_roll_free(&w->roll[r]);
}

static uint32_t below(uint32_t n)
{
    return (uint32_t)rand() % n;
}

/* trouble: deaths, then bit 0: wrong suspicions, bit 1: broken links. */
static void stir(struct world *w, unsigned deaths, unsigned how)
{
    for (int i = 0; i < 400; i++) {
        uint32_t a = below(w->n), b = below(w->n);
        if (deliver(w, a, b))
            check_views(w);
        look(w, b, a);
        if (below(60) == 0 && deaths && !w->ended[a]) {
            w->ended[a] = true;
            deaths--;
        }
        if ((how & 1) && below(80) == 0 && a != b && !w->ended[a]) {
            tt_roll_quiet(&w->roll[a], b);
            collect(w, a);
        }
        if ((how & 2) && below(30) == 0 && a != b)
            cut_link(w, a, b);
        check_views(w);
    }
}

static void test_roll_random(void **state)
{
    static struct world w;
    (void)state;
    srand(1);
    for (int k = 0; k < 1000; k++) {
        unsigned how = (unsigned)k % 4;
        world_begin(&w, 2 + below(MAX - 1));
        stir(&w, below(w.n), how);
        calm(&w);
        for (uint32_t r = 0; r < w.n; r++) {
            if (w.ended[r])
                continue;
            assert_true(w.roll[r].decided); /* nobody waits for ever */
            if (!how)
                assert_true(tt_set_has(&w.roll[r].view.in, r)); /* nobody is left out who lives */
        }
        world_end(&w);
    }
}

/* After a cut the side with more than half of the ranks goes on, or half with rank 0, and no other;
 * unless the ranks were so far before the cut that the view is decided: then all may have it. */
static void test_roll_cut(void **state)
{
    static struct world w;
    (void)state;
    srand(2);
    for (int k = 0; k < 600; k++) {
        world_begin(&w, 2 + below(MAX - 1));
        if (k % 2)
            stir(&w, 0, 0);
        for (uint32_t r = 0; r < w.n; r++)
            w.side[r] = below(2);
        for (uint32_t a = 0; a < w.n; a++)
            for (uint32_t b = 0; b < w.n; b++)
                if (!reaches(&w, a, b))
                    cut_link(&w, a, b);
        calm(&w);
        for (uint32_t s = 0; s < 2; s++) {
            struct tt_set side = {0}, none = {0};
            for (uint32_t r = 0; r < w.n; r++)
                if (w.side[r] == s)
                    tt_set_add(&side, r);
            for (uint32_t r = 0; r < w.n; r++)
                if (w.side[r] == s && tt_roll_quorum(&side, &none, w.n, true))
                    assert_true(w.roll[r].decided);
                else if (w.side[r] == s && k % 2 == 0)
                    assert_false(w.roll[r].decided);
        }
        world_end(&w);
    }
}

static void test_roll_quorum(void **state)
{
    struct tt_set who = {0}, dead = {0};
    (void)state;
    tt_set_add(&who, 2);
    assert_false(tt_roll_quorum(&who, &dead, 4, true));
    tt_set_add(&dead, 0);
    tt_set_add(&dead, 1);
    assert_false(tt_roll_quorum(&who, &dead, 4, true));
    tt_set_add(&dead, 3);
    assert_true(tt_roll_quorum(&who, &dead, 4, true));
    assert_false(tt_roll_quorum(&who, &dead, 4, false)); /* it may itself be the one that is out */
    memset(&dead, 0, sizeof dead);
    tt_set_add(&who, 3);
    assert_false(tt_roll_quorum(&who, &dead, 4, true)); /* half, without rank 0 */
    tt_set_remove(&who, 3);
    tt_set_add(&who, 0);
    assert_true(tt_roll_quorum(&who, &dead, 4, false)); /* half, with rank 0 */
    assert_true(tt_roll_quorum(&who, &dead, 3, false));
    assert_false(tt_roll_quorum(&who, &dead, 5, true));
}

/* Bytes of the network that no rank of this world can have sent. */
static void test_roll_insane(void **state)
{
    struct tt_roll_note m = {.magic = TT_ROLL_MAGIC, .kind = TT_ROLL_COMMIT, .view = {.job = 1}};
    (void)state;
    assert_false(tt_roll_sane(&m, 3)); /* nobody goes on */
    tt_set_add(&m.view.in, 1);
    assert_true(tt_roll_sane(&m, 3));
    m.view.job = 0;
    assert_false(tt_roll_sane(&m, 3));
    m.view.job = 1;
    tt_set_add(&m.view.in, 3);
    assert_false(tt_roll_sane(&m, 3));
    assert_true(tt_roll_sane(&m, 4));
    tt_set_add(&m.dead, TT_ROLL_RANKS - 1);
    assert_false(tt_roll_sane(&m, 4));
    tt_set_remove(&m.dead, TT_ROLL_RANKS - 1);
    m.ballot = UINT64_C(1) << 32 | 4;
    assert_false(tt_roll_sane(&m, 4));
    m.ballot = 0;
    m.kind = TT_ROLL_KINDS;
    assert_false(tt_roll_sane(&m, 4));
    m.kind = 0;
    assert_false(tt_roll_sane(&m, 4));
    m.kind = TT_ROLL_BEAT;
    m.magic++;
    assert_false(tt_roll_sane(&m, 4));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_roll_quorum),
        cmocka_unit_test(test_roll_insane),
        cmocka_unit_test(test_roll_random),
        cmocka_unit_test(test_roll_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
