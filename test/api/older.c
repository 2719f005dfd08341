/* older.c - a program that was compiled with the headers of an earlier version (old/tutti/, as of 9f31aa6) runs on the
 * library of today: its structs are shorter. And one of a later version, whose structs are longer: fields that this
 * library does not know must be zero. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tutti/tutti.h>

static struct tutti_error err;

static void check(int line, bool ok, const char *what)
{
    if (!ok) {
        fprintf(stderr, "older.c:%d: %s (%s)\n", line, what, err.text);
        exit(1);
    }
}
#define CHECK(ok) check(__LINE__, (ok), #ok)

static void test_plan(void)
{
    struct tutti_topo *topo = NULL;
    struct tutti_plan *plan = NULL;
    struct tutti_plan_options o = {.size = sizeof o, .count = 1000, .algo = "ring"};
    CHECK(!tutti_topo_parse("star:4", &topo, &err));
    CHECK(!tutti_plan_make(topo, &o, &plan, &err));
    CHECK(!strcmp(tutti_plan_algo(plan), "ring"));
    tutti_plan_free(plan);
    o.size = offsetof(struct tutti_plan_options, algo); /* before there was a choice of algorithms */
    CHECK(!tutti_plan_make(topo, &o, &plan, &err));
    tutti_plan_free(plan);
    tutti_topo_free(topo);
}

static void test_trainer(struct tutti_comm *comm)
{
    struct tutti_trainer *t = NULL;
    const struct tutti_trainer_options o = {.size = sizeof o, .policy = "sync", .optimizer = TUTTI_OPTIMIZER_SGD};
    const struct tutti_tensor x = {.size = sizeof x, .name = "x", .count = 3};
    const struct tutti_group g = {.size = sizeof g, .lr = 0.5};
    CHECK(!tutti_trainer_open(comm, &o, &t, &err));
    CHECK(!tutti_trainer_add(t, &x, NULL, &err));
    CHECK(!tutti_trainer_set_group(t, 0, &g, &err));
    CHECK(!tutti_trainer_freeze(t, &err));
    ((float *)tutti_trainer_grad(t, 0))[1] = 4;
    CHECK(!tutti_trainer_grad_ready(t, 0) && !tutti_trainer_step(t) && !tutti_trainer_flush(t));
    CHECK(((float *)tutti_trainer_param(t, 0))[1] == -2);
    tutti_trainer_close(t);
}

/* The field behind the known ones is of a version to come. */
static void test_later(void)
{
    struct {
        struct tutti_comm_options known;
        char more[256];
    } later = {.known = {.given = true, .ranks = 1}};
    struct tutti_comm *comm = NULL;
    later.known.size = sizeof later;
    CHECK(!tutti_comm_open(&later.known, &comm, &err));
    tutti_comm_close(comm);
    later.more[sizeof later.more - 1] = 1;
    CHECK(tutti_comm_open(&later.known, &comm, &err) == TUTTI_ERR_ARG);
    CHECK(strstr(err.text, "tutti_comm_open: struct tutti_comm_options: a field is set that version"));
    later.known.size = 0;
    CHECK(tutti_comm_open(&later.known, &comm, &err) == TUTTI_ERR_ARG);
    CHECK(strstr(err.text, "`size`"));
    later.known.size = SIZE_MAX;
    CHECK(tutti_comm_open(&later.known, &comm, &err) == TUTTI_ERR_ARG);
}

int main(void)
{
    struct tutti_comm *comm = NULL;
    const struct tutti_comm_options o = {.size = sizeof o, .given = true, .ranks = 1, .algo = "ring"};
    float x = 3, y = 0;
    CHECK(!tutti_comm_open(&o, &comm, &err));
    CHECK(!tutti_allreduce(comm, &x, &y, 1, TUTTI_F32, TUTTI_SUM) && y == 3);
    test_trainer(comm);
    tutti_comm_close(comm);
    test_plan();
    test_later();
    printf("struct tutti_comm_options had %zu bytes\n", sizeof o);
    return 0;
}
