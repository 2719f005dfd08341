/* The public interface from outside: only installed headers, every function called once, misuse answered with errors. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tutti/tutti.h>

static int failures;

static void expect(int ok, const char *what)
{
    if (!ok) {
        printf("FAILED: %s\n", what);
        failures++;
    }
}

static void test_plan(const struct tutti_topo *t)
{
    struct tutti_plan_options o = {.size = sizeof o, .count = 1 << 20, .algo = "ring", .options = "segments=2"};
    struct tutti_plan *p = NULL;
    struct tutti_schedule *s = NULL, *again = NULL;
    struct tutti_verdict v;
    struct tutti_sim_result r;
    struct tutti_error err;
    expect(tutti_plan_make(t, &o, &p, &err) == TUTTI_OK, "plan ring");
    expect(!strcmp(tutti_plan_algo(p), "ring"), "the named algorithm is taken");
    expect(tutti_plan_predicted_us(p) >= tutti_plan_bound_us(p) && tutti_plan_bound_us(p) > 0, "prediction above the bound");
    expect(tutti_plan_schedule(p, &s, &err) == TUTTI_OK, "schedule");
    expect(tutti_schedule_verify(s, &v, &err) == TUTTI_OK && v.ok && v.exact && v.ranks == 6, "verify");
    expect(tutti_schedule_simulate(s, t, o.count, TUTTI_F32, &r, &err) == TUTTI_OK && r.steps == 10, "simulate: 2(p-1) steps");
    expect(r.time_us == tutti_plan_predicted_us(p), "the step level is the prediction");
    char path[] = "/tmp/tutti-public-XXXXXX";
    int fd = mkstemp(path);
    expect(fd >= 0 && tutti_schedule_write(s, path, &err) == TUTTI_OK, "write");
    expect(tutti_schedule_read(path, &again, &err) == TUTTI_OK, "read");
    remove(path);
    tutti_schedule_free(again);
    tutti_schedule_free(s);
    tutti_plan_free(p);
}

static void test_auto(const struct tutti_topo *t)
{
    struct tutti_plan_options o = {.size = sizeof o, .count = 1000};
    struct tutti_plan *p = NULL;
    struct tutti_candidate c;
    struct tutti_error err;
    bool listed = false;
    expect(tutti_plan_make(t, &o, &p, &err) == TUTTI_OK, "plan auto");
    for (size_t i = 0; tutti_plan_explain(p, i, &c, &err) == TUTTI_OK; i++)
        listed |= !c.refused && !c.skipped && c.predicted_us == tutti_plan_predicted_us(p);
    expect(listed, "the winner is one of the candidates, with the same price");
    tutti_plan_free(p);
}

static void test_misuse(const struct tutti_topo *t)
{
    struct tutti_plan_options o = {.size = sizeof o, .count = 1000, .algo = "no-such"};
    struct tutti_plan *p = NULL;
    struct tutti_topo *bad = NULL;
    struct tutti_schedule *s = NULL;
    struct tutti_error err = {0};
    expect(tutti_plan_make(t, &o, &p, &err) != TUTTI_OK && !p && strstr(err.text, "no-such"), "unknown algorithm");
    o.size = 1;
    expect(tutti_plan_make(t, &o, &p, &err) == TUTTI_ERR_ARG, "wrong size field");
    o = (struct tutti_plan_options){.size = sizeof o, .root = 6, .coll = TUTTI_BROADCAST};
    expect(tutti_plan_make(t, &o, &p, &err) == TUTTI_ERR_RANGE, "root out of range");
    expect(tutti_plan_make(NULL, &o, &p, NULL) == TUTTI_ERR_ARG, "no topology, no error struct");
    expect(tutti_topo_parse("star:0", &bad, &err) != TUTTI_OK && !bad, "0 ranks");
    expect(tutti_topo_load("/nonexistent", &bad, &err) == TUTTI_ERR_IO, "no file");
    expect(tutti_schedule_read("/nonexistent", &s, &err) == TUTTI_ERR_IO && !s, "no plan file");
    expect(strlen(tutti_strerror(TUTTI_ERR_PARSE)) > 0 && strlen(tutti_strerror(12345)) > 0, "every status has a text");
    tutti_topo_free(NULL);
    tutti_plan_free(NULL);
    tutti_schedule_free(NULL);
}

int main(void)
{
    struct tutti_topo *t = NULL;
    struct tutti_error err;
    expect(tutti_topo_generate("star", "6", "1Gbps,50us", &t, &err) == TUTTI_OK, "generate");
    expect(tutti_topo_ranks(t) == 6, "ranks");
    test_plan(t);
    test_auto(t);
    test_misuse(t);
    tutti_topo_free(t);
    printf("tutti %s: %d failures\n", tutti_version(), failures);
    return failures ? 1 : 0;
}
