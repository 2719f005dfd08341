/* order.c - calls in the wrong order, or in one that used to be wrong: what ended is used, ended again or ends before
 * what depends on it; requests that are under way when they are freed or their communicator is closed; handles of a
 * parent process; memory of somebody else. Run by any number of ranks. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "api/tool.h"

enum { COUNT = 100000 };
static float in[COUNT], out[COUNT];
static uint32_t rank, ranks;
static struct tutti_error err;
static struct tutti_comm *comm;

static void check(int line, bool ok, const char *what)
{
    if (ok)
        return;
    fprintf(stderr, "order.c:%d: rank %u: %s\n", line, rank, what);
    if (comm)
        tutti_comm_abort(comm, "a test failed");
    exit(1);
}
#define CHECK(ok)            check(__LINE__, (ok), #ok)
#define REFUSED(call, says)  CHECK((call) == TUTTI_ERR_ARG && refusal_has(says))
#define DIES(function, says) CHECK(dies(function, says))

static bool refusal_has(const char *says)
{
    const char *text = tutti_comm_last_error(NULL)->text;
    if (strstr(text, says))
        return true;
    fprintf(stderr, "%s\n", text);
    return false;
}

/* Does it abort with this sentence, alone in a process? */
static bool dies(void (*function)(void), const char *says)
{
    int pipes[2], how = 0;
    char said[1024];
    if (pipe(pipes))
        return false;
    pid_t pid = fork();
    if (pid == 0) {
        dup2(pipes[1], STDERR_FILENO);
        function();
        _exit(0);
    }
    close(pipes[1]);
    ssize_t n = read(pipes[0], said, sizeof said - 1);
    close(pipes[0]);
    said[n > 0 ? n : 0] = 0;
    waitpid(pid, &how, 0);
    bool ok = WIFSIGNALED(how) && WTERMSIG(how) == SIGABRT && strstr(said, says) && !strchr(said, '/');
    if (!ok)
        fprintf(stderr, "status %x, said: %s\n", (unsigned)how, said);
    return ok;
}

/* ---- alone ---- */

static struct tutti_comm *alone(void)
{
    struct tutti_comm *c = NULL;
    const struct tutti_comm_options o = {.size = sizeof o, .given = true, .ranks = 1};
    if (tutti_comm_open(&o, &c, &err)) {
        fprintf(stderr, "%s\n", err.text);
        _exit(9);
    }
    return c;
}

static struct tutti_topo *a_topo(void)
{
    struct tutti_topo *t = NULL;
    return tutti_topo_parse("torus:4x4", &t, &err) ? NULL : t;
}

static void close_twice(void)
{
    struct tutti_comm *c = alone();
    tutti_comm_close(c);
    tutti_comm_close(c);
}

static void free_twice(void)
{
    struct tutti_topo *t = a_topo();
    tutti_topo_free(t);
    tutti_topo_free(a_topo()); /* whose place may be the same */
    tutti_topo_free(t);
}

static void request_free_twice(void)
{
    struct tutti_request *r = NULL;
    tutti_barrier_init(alone(), &r);
    tutti_request_free(r);
    tutti_request_free(r);
}

static void free_of_another(void)
{
    int x;
    tutti_mem_free(alone(), &x);
}

static void mem_free_twice(void)
{
    void *p = NULL;
    struct tutti_comm *c = alone();
    tutti_mem_alloc(c, 100, &p, &err);
    tutti_mem_free(c, p);
    tutti_mem_free(c, p);
}

static void mem_of_another_comm(void)
{
    void *p = NULL;
    tutti_mem_alloc(alone(), 100, &p, &err);
    tutti_mem_free(alone(), p);
}

static void json_half(void)
{
    struct tutti_json *j = tutti_json_open(stdout);
    tutti_json_object(j, NULL);
    tutti_json_close(j);
}

static void json_end_of_nothing(void)
{
    tutti_json_end(tutti_json_open(stdout));
}

static void rank_of_nothing(void)
{
    tutti_comm_rank(NULL);
}

static void test_deaths(void)
{
    DIES(close_twice, "tutti_comm_close: the communicator was closed already");
    DIES(free_twice, "tutti_topo_free: the topology was freed already");
    DIES(request_free_twice, "tutti_request_free: the request was freed already");
    DIES(free_of_another, "was not allocated by tutti_mem_alloc on this communicator, or was freed already");
    DIES(mem_free_twice, "was not allocated by tutti_mem_alloc on this communicator, or was freed already");
    DIES(mem_of_another_comm, "was not allocated by tutti_mem_alloc on this communicator, or was freed already");
    DIES(json_half, "tutti_json_close: 1 objects or arrays are still open");
    DIES(json_end_of_nothing, "tutti_json_end: no object or array is open");
    DIES(rank_of_nothing, "tutti_comm_rank: the communicator is NULL");
}

/* What something is made from may be freed first. */
static void test_parents_first(void)
{
    struct tutti_topo *t = a_topo();
    struct tutti_plan *p = NULL;
    struct tutti_schedule *s = NULL;
    struct tutti_sim *sim = NULL;
    struct tutti_sim_link link;
    struct tutti_model *m = NULL;
    struct tutti_prices *prices = NULL;
    struct tutti_trainsim *step = NULL;
    struct tutti_trainsim_bucket bucket;
    const struct tutti_plan_options o = {.size = sizeof o, .count = 1000};
    CHECK(!tutti_plan_make(t, &o, &p, &err));
    CHECK(!tutti_plan_schedule(p, &s, &err));
    CHECK(!tutti_sim_run(s, t, 1000, TUTTI_F32, &(struct tutti_sim_options){0}, &sim, &err));
    CHECK(!tutti_prices_open(t, "ring", false, &prices, &err));
    tutti_topo_free(t);
    tutti_schedule_free(s);
    CHECK(!tutti_plan_schedule(p, &s, &err));
    CHECK(tutti_sim_link(sim, 0, &link) && link.bytes_per_s > 0);
    CHECK(!tutti_model_open("alexnet", 0, 0, &m, &err));
    CHECK(!tutti_trainsim_run(m, prices, &(struct tutti_trainsim_options){0}, &step, &err));
    tutti_model_free(m);
    tutti_prices_close(prices);
    CHECK(tutti_trainsim_bucket(step, 0, &bucket) && *bucket.first);
    tutti_trainsim_free(step);
    tutti_sim_free(sim);
    tutti_schedule_free(s);
    tutti_plan_free(p);
}

/* Handles of the same slot are told apart: a thousand that ended, none is taken for the living one. */
static void test_reuse(void)
{
    enum { MANY = 1000 };
    static struct tutti_topo *dead[MANY];
    for (int i = 0; i < MANY; i++) {
        dead[i] = a_topo();
        tutti_topo_free(dead[i]);
    }
    struct tutti_topo *t = a_topo();
    for (int i = 0; i < MANY; i++)
        CHECK(dead[i] != t && tutti_topo_write(dead[i], "-", &err) == TUTTI_ERR_ARG);
    tutti_topo_free(t);
}

/* Memory that was not freed goes with its communicator. */
static void test_memory(void)
{
    struct tutti_comm *c = alone(), *d = alone();
    void *p[3];
    for (int i = 0; i < 3; i++)
        CHECK(!tutti_mem_alloc(i == 1 ? d : c, 1000, &p[i], &err));
    tutti_mem_free(c, NULL);
    tutti_comm_close(c);
    memset(p[1], 1, 1000);
    tutti_mem_free(d, p[1]);
    tutti_comm_close(d);
}

/* Kept memory stays, also where other ranks reached it, until each block is freed. */
static void test_kept_memory(void)
{
    struct tutti_comm *c = NULL;
    void *p[3];
    CHECK(!tutti_comm_split(comm, 0, (int)rank, &c, &err));
    for (int i = 0; i < 3; i++)
        CHECK(!tutti_mem_alloc(c, sizeof in, &p[i], &err));
    for (int i = 0; i < COUNT; i++)
        ((float *)p[0])[i] = 1;
    tutti_mem_keep(c);
    tutti_mem_free(c, p[2]);
    CHECK(!tutti_allreduce(c, p[0], p[1], COUNT, TUTTI_F32, TUTTI_SUM));
    tutti_comm_close(c);
    tutti_mem_free(NULL, p[0]);
    CHECK(((float *)p[1])[COUNT - 1] == (float)ranks);
    tutti_mem_free(NULL, p[1]);
}

/* ---- together ---- */

static void test_requests(void)
{
    struct tutti_comm *c = NULL;
    struct tutti_request *left = NULL, *freed = NULL;
    CHECK(!tutti_comm_split(comm, 0, (int)rank, &c, &err));
    CHECK(!tutti_allreduce_init(c, in, out, COUNT, TUTTI_F32, TUTTI_SUM, &left));
    CHECK(!tutti_allreduce_init(c, in, out, COUNT, TUTTI_F32, TUTTI_SUM, &freed));
    for (int i = 0; i < COUNT; i++)
        in[i] = (float)(rank + 1);
    CHECK(!tutti_request_start(freed));
    CHECK(tutti_request_start(freed) == TUTTI_ERR_ARG);
    tutti_request_free(freed); /* waits */
    CHECK(out[COUNT - 1] == (float)(ranks * (ranks + 1) / 2));
    memset(out, 0, sizeof out);
    CHECK(!tutti_request_start(left));
    tutti_comm_close(c); /* waits */
    CHECK(out[COUNT - 1] == (float)(ranks * (ranks + 1) / 2));
    REFUSED(tutti_request_wait(left), "tutti_request_wait: the communicator that the request belongs to was closed");
    REFUSED(tutti_request_start(left), "tutti_request_start: the communicator that the request belongs to was closed");
    tutti_request_free(left);
}

static void test_overlaps(void)
{
    size_t none[64] = {0};
    CHECK(tutti_allreduce(comm, in, in + 1, 100, TUTTI_F32, TUTTI_SUM) == TUTTI_ERR_ARG);
    CHECK(tutti_allreduce(comm, in + 1, in, 100, TUTTI_F32, TUTTI_SUM) == TUTTI_ERR_ARG);
    CHECK(tutti_allreduce(comm, NULL, out, 100, TUTTI_F32, TUTTI_SUM) == TUTTI_ERR_ARG);
    CHECK(tutti_all_to_all(comm, in, in + 1, 100, TUTTI_F32) == TUTTI_ERR_ARG);
    CHECK(tutti_allreduce(comm, in, out, SIZE_MAX / 2, TUTTI_F32, TUTTI_SUM) == TUTTI_ERR_RANGE);
    CHECK(tutti_reduce_scatter_v(comm, in, out, NULL, TUTTI_F32, TUTTI_SUM) == TUTTI_ERR_ARG);
    none[0] = SIZE_MAX;
    CHECK(tutti_all_gather_v(comm, in, out, none, TUTTI_F32) == TUTTI_ERR_RANGE);
    CHECK(!tutti_allreduce(comm, in, out, 100, TUTTI_F32, TUTTI_SUM));
}

static void test_frozen(void)
{
    struct tutti_trainer *t = NULL;
    const struct tutti_tensor x = {.size = sizeof x, .name = "x", .count = 10}, huge = {.size = sizeof x, .name = "y", .count = SIZE_MAX};
    struct tutti_trainer_options wrong = {.size = sizeof wrong, .optimizer = (tutti_optimizer)77};
    CHECK(tutti_trainer_open(comm, &wrong, &t, &err) == TUTTI_ERR_ARG);
    CHECK(!tutti_trainer_open(comm, NULL, &t, &err));
    CHECK(tutti_trainer_add(t, &huge, NULL, &err) < 0);
    CHECK(!tutti_trainer_add(t, &x, NULL, &err));
    CHECK(!tutti_trainer_grad(t, 0));
    CHECK(tutti_trainer_grad_ready(t, 0) < 0);
    tutti_trainer_close(t);
    CHECK(!tutti_trainer_open(comm, NULL, &t, &err));
    CHECK(!tutti_trainer_add(t, &x, NULL, &err));
    CHECK(!tutti_trainer_freeze(t, &err));
    CHECK(tutti_trainer_add(t, &x, NULL, &err) < 0 && strstr(err.text, "froz"));
    CHECK(tutti_trainer_freeze(t, &err) < 0);
    tutti_trainer_close(t);
    REFUSED(tutti_trainer_step(t), "tutti_trainer_step: the trainer was closed already");
    CHECK(strstr(tutti_trainer_last_error(t)->text, "tutti_trainer_step: the trainer was closed already"));
}

/* A child has its parent's handles, but not what is behind them. */
static void in_the_child(struct tutti_request *r, struct tutti_trainer *t, struct tutti_topo *topo)
{
    void *p;
    if (tutti_allreduce(comm, in, out, 1, TUTTI_F32, TUTTI_SUM) != TUTTI_ERR_ARG ||
        !refusal_has("tutti_allreduce: the communicator belongs to the process that this one was forked from"))
        _exit(1);
    if (tutti_request_start(r) != TUTTI_ERR_ARG || tutti_trainer_step(t) != TUTTI_ERR_ARG ||
        tutti_mem_alloc(comm, 10, &p, &err) != TUTTI_ERR_ARG)
        _exit(2);
    tutti_request_free(r);
    tutti_trainer_close(t);
    tutti_comm_close(comm);
    if (tutti_topo_ranks(topo) != 16)
        _exit(3);
    struct tutti_comm *own = alone();
    if (tutti_barrier(own))
        _exit(4);
    tutti_comm_close(own);
    _exit(0);
}

static void test_fork(void)
{
    int how = 0;
    struct tutti_request *r = NULL;
    struct tutti_trainer *t = NULL;
    struct tutti_topo *topo = a_topo();
    CHECK(!tutti_barrier_init(comm, &r));
    CHECK(!tutti_trainer_open(comm, NULL, &t, &err));
    pid_t pid = fork();
    if (pid == 0)
        in_the_child(r, t, topo);
    CHECK(waitpid(pid, &how, 0) == pid && WIFEXITED(how));
    CHECK(WEXITSTATUS(how) == 0);
    CHECK(!tutti_request_start(r) && !tutti_request_wait(r));
    tutti_trainer_close(t);
    tutti_request_free(r);
    tutti_topo_free(topo);
    CHECK(!tutti_barrier(comm));
}

int main(void)
{
    char before[4096] = "";
    const struct tutti_comm_options o = {.size = sizeof o, .key_file = getenv("TUTTI_KEY_FILE")};
    snprintf(before, sizeof before, "%s", o.key_file ? o.key_file : "");
    CHECK(!tutti_comm_open(&o, &comm, &err) || !fprintf(stderr, "%s\n", err.text));
    rank = tutti_comm_rank(comm);
    ranks = tutti_comm_size(comm);
    test_deaths();
    test_parents_first();
    test_reuse();
    test_memory();
    test_kept_memory();
    test_requests();
    test_overlaps();
    test_frozen();
    test_fork();
    tutti_comm_close(comm);
    CHECK(tutti_comm_open(&(struct tutti_comm_options){.size = sizeof o, .given = true, .ranks = 1, .key_file = "none such"}, &comm, &err));
    CHECK(!strcmp(before, getenv("TUTTI_KEY_FILE") ? getenv("TUTTI_KEY_FILE") : ""));
    return 0;
}
