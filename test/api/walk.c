/* walk.c - every public function, called wrongly in every way that walk.py can think of: one argument at a time is NULL,
 * a closed handle, a handle of another kind, no handle at all, or out of range; the others are good.
 *
 * A function with a status returns an error with a sentence that begins with its name. One without returns, or ends the
 * process by abort after such a sentence on standard error. Anything else (another signal, a sanitizer, a hang) is a
 * failure. Cases run one after the other in a child process; when it ends, as it may, the next child goes on behind the
 * case that ended it. */
#include <limits.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "api/tool.h"

enum mode { A_POINTER, A_NULL, A_CLOSED, A_FOREIGN, A_OTHER, AN_ENUM, AN_INTEGER };
static const char *const mode_names[] = {
    "NULL", "NULL", "a closed handle", "an address that is no handle", "a handle of another kind", "no such value", "the largest value"};
struct walk_case {
    const char *function, *parameter;
    enum mode mode;
    bool has_status, has_err;
    enum { OF_NONE, OF_COMM, OF_TRAINER } of; /* a good handle that keeps the last error */
    void (*run)(void);
};

static tutti_status status;
static struct tutti_error err;
static bool frozen; /* the trainers of this round */
static char folder[] = "/tmp/tutti-walk-XXXXXX", topo_file[64], schedule_file[64], any_file[64];
static FILE *nowhere;
static size_t counts[64] = {1};
static uint64_t foreign[512];

static void fail(const char *what, const char *why)
{
    fprintf(stderr, "walk: %s: %s\n", what, why);
    _exit(3);
}

/* Room for what a function writes or reads, zeroed; a struct may begin with its size. */
static void *room(size_t bytes, bool has_size)
{
    static uint64_t rooms[8][1024];
    static unsigned next;
    void *r = rooms[next++ % 8];
    memset(r, 0, sizeof rooms[0]);
    if (has_size)
        memcpy(r, &bytes, sizeof bytes);
    return r;
}

/* ---- good arguments ---- */

static const struct tutti_plan_options a_plan_options = {.size = sizeof a_plan_options, .algo = "ring", .count = 64};
static void first_of(void *ctx, const void *left, const void *right, void *out, size_t count)
{
    (void)ctx;
    (void)right;
    memmove(out, left, 4 * count);
}
static const struct tutti_redop_options a_redop_options = {
    .size = sizeof a_redop_options, .name = "first", .fn = first_of, .elem_bytes = 4};
static const struct tutti_comm_options a_comm_options = {.size = sizeof a_comm_options};
static const struct tutti_trainer_options a_trainer_options = {.size = sizeof a_trainer_options};
static const struct tutti_tensor a_tensor = {.size = sizeof a_tensor, .name = "third", .count = 5};
static const struct tutti_group a_group = {.size = sizeof a_group, .lr = 0.1};
static const struct tutti_sim_options a_sim_options;
static const struct tutti_trainsim_options a_trainsim_options;
static int gather(void *ctx, const void *mine, size_t bytes, void *ret_all)
{
    (void)ctx;
    memcpy(ret_all, mine, bytes);
    return 0;
}
static const struct tutti_parent a_parent = {.ranks = 1, .local_rank = -1, .gather = gather};

/* ---- handles: good_x makes one when there is none, closed_x one that has ended, drop_x ends it ---- */

static tutti_status make_comm(struct tutti_comm **ret);
static tutti_status make_topo(struct tutti_topo **ret)
{
    return tutti_topo_parse("star:4", ret, &err);
}
#define HANDLE(x, end)                                              \
    static struct tutti_##x *x;                                     \
    __attribute__((unused)) static struct tutti_##x *good_##x(void) \
    {                                                               \
        if (!x && make_##x(&x))                                     \
            fail("a " #x " cannot be made", err.text);              \
        return x;                                                   \
    }                                                               \
    static inline struct tutti_##x *closed_##x(void)                \
    {                                                               \
        struct tutti_##x *one = NULL;                               \
        if (make_##x(&one))                                         \
            fail("a " #x " cannot be made", err.text);              \
        end(one);                                                   \
        return one;                                                 \
    }                                                               \
    __attribute__((unused)) static void gone_##x(void)              \
    {                                                               \
        x = NULL;                                                   \
    }                                                               \
    __attribute__((unused)) static void drop_##x(void)              \
    {                                                               \
        if (x)                                                      \
            end(x);                                                 \
        x = NULL;                                                   \
    }
HANDLE(comm, tutti_comm_close)
HANDLE(topo, tutti_topo_free)

static tutti_status make_comm(struct tutti_comm **ret)
{
    return tutti_comm_open(NULL, ret, &err);
}

static tutti_status make_plan(struct tutti_plan **ret)
{
    return tutti_plan_make(good_topo(), &a_plan_options, ret, &err);
}
HANDLE(plan, tutti_plan_free)

static tutti_status make_schedule(struct tutti_schedule **ret)
{
    return tutti_plan_schedule(good_plan(), ret, &err);
}
HANDLE(schedule, tutti_schedule_free)

static tutti_status make_request(struct tutti_request **ret)
{
    static float in[4], out[4];
    return tutti_allreduce_init(good_comm(), in, out, 4, TUTTI_F32, TUTTI_SUM, ret);
}
HANDLE(request, tutti_request_free)

static tutti_status make_trainer(struct tutti_trainer **ret)
{
    const struct tutti_tensor two[] = {{.size = sizeof a_tensor, .name = "first", .count = 7},
                                       {.size = sizeof a_tensor, .name = "second", .count = 9}};
    tutti_status st = tutti_trainer_open(good_comm(), NULL, ret, &err);
    for (int i = 0; i < 2 && !st; i++)
        st = tutti_trainer_add(*ret, &two[i], NULL, &err);
    return !st && frozen ? tutti_trainer_freeze(*ret, &err) : st;
}
HANDLE(trainer, tutti_trainer_close)

static tutti_status make_bound(struct tutti_bound **ret)
{
    return tutti_bound_make(good_topo(), TUTTI_ALLREDUCE, 0, 1024, ret, &err);
}
HANDLE(bound, tutti_bound_free)

static tutti_status make_sim(struct tutti_sim **ret)
{
    return tutti_sim_run(good_schedule(), good_topo(), 64, TUTTI_F32, &a_sim_options, ret, &err);
}
HANDLE(sim, tutti_sim_free)

static tutti_status make_probe(struct tutti_probe **ret)
{
    return tutti_probe_run(good_comm(), 1000, ret, &err);
}
HANDLE(probe, tutti_probe_free)

static tutti_status make_model(struct tutti_model **ret)
{
    return tutti_model_open("alexnet", 0, 0, ret, &err);
}
HANDLE(model, tutti_model_free)

static tutti_status make_prices(struct tutti_prices **ret)
{
    return tutti_prices_open(good_topo(), "ring", false, ret, &err);
}
HANDLE(prices, tutti_prices_close)

static tutti_status make_trainsim(struct tutti_trainsim **ret)
{
    return tutti_trainsim_run(good_model(), good_prices(), &a_trainsim_options, ret, &err);
}
HANDLE(trainsim, tutti_trainsim_free)

static tutti_status make_survey(struct tutti_survey **ret)
{
    return tutti_survey_make(NULL, ret, &err);
}
HANDLE(survey, tutti_survey_free)

static tutti_status make_run(struct tutti_run **ret)
{
    return tutti_run_read(A_TRACE, ret, &err);
}
HANDLE(run, tutti_run_free)

static tutti_status make_top(struct tutti_top **ret)
{
    return tutti_top_read(ret, &err);
}
HANDLE(top, tutti_top_free)

static tutti_status make_json(struct tutti_json **ret)
{
    *ret = tutti_json_open(nowhere);
    if (*ret)
        tutti_json_object(*ret, NULL); /* values in it have keys */
    return *ret ? TUTTI_OK : TUTTI_ERR_MEMORY;
}
static void end_json(struct tutti_json *j)
{
    tutti_json_end(j);
    tutti_json_close(j);
}
HANDLE(json, end_json)

static void *good_memory(void)
{
    void *memory = NULL;
    if (tutti_mem_alloc(good_comm(), 100, &memory, &err))
        fail("memory", err.text);
    return memory;
}

static void drop_all(void)
{
    void (*const drops[])(void) = {drop_trainer, drop_request, drop_probe,    drop_survey, drop_run, drop_sim,  drop_bound, drop_schedule,
                                   drop_plan,    drop_prices,  drop_trainsim, drop_model,  drop_topo, gone_json,  drop_comm};
    for (size_t i = 0; i < sizeof drops / sizeof drops[0]; i++)
        drops[i]();
}

#include "walk_cases.h"

/* ---- one case ---- */

static bool begins_with_name(const char *text, const char *function)
{
    size_t n = strlen(function);
    return !strncmp(text, function, n) && text[n] == ':' && text[n + 1] == ' ';
}

static const struct tutti_error *last_error(const struct walk_case *c)
{
    return c->of == OF_TRAINER ? tutti_trainer_last_error(trainer) : tutti_comm_last_error(comm);
}

/* Functions without `err` keep their error where it was kept before: an earlier failure must not be mistaken for it. */
static struct tutti_error stale;
static void fail_before(const struct walk_case *c)
{
    if (c->of == OF_COMM && !c->has_err)
        tutti_recv(good_comm(), counts, 1, TUTTI_F64, 777);
    stale = c->of == OF_COMM && !c->has_err ? *last_error(c) : (struct tutti_error){0}; /* trainers keep their first error */
}

static const char *judge_last(const struct walk_case *c)
{
    const struct tutti_error *last = last_error(c);
    if (!strcmp(last->text, stale.text))
        return "the last error is none, or that of an earlier call";
    return last->status != status ? "the last error has another status" : NULL;
}

/* What is wrong with how a case returned; NULL: nothing. */
static const char *judge(const struct walk_case *c)
{
    bool handle = c->mode >= A_NULL && c->mode <= A_OTHER;
    if (!c->has_status)
        return handle ? "it returned as if nothing were wrong" : NULL;
    const char *text = c->has_err ? err.text : tutti_comm_last_error(NULL)->text;
    if (handle && status != TUTTI_ERR_ARG)
        return "the status is not TUTTI_ERR_ARG";
    if (handle && !begins_with_name(text, c->function))
        return text;
    if (c->mode == AN_ENUM && status >= 0)
        return "no error";
    if (status < 0 && c->of && !c->has_err && strcmp(c->parameter, "err") != 0)
        return judge_last(c);
    return status < 0 && c->has_err && !*err.text ? "an error without a sentence" : NULL;
}

static void run_case(const struct walk_case *c)
{
    alarm(30);
    fail_before(c);
    err = (struct tutti_error){0};
    status = 0;
    c->run();
    const char *wrong = judge(c);
    if (wrong)
        fail(c->function, wrong);
    drop_all();
    alarm(0);
}

/* ---- all of them ---- */

struct progress {
    size_t at;
};

static void child(struct progress *p, size_t from, int errors)
{
    dup2(errors, STDERR_FILENO);
    for (size_t i = from; i < sizeof cases / sizeof cases[0]; i++) {
        p->at = i;
        if (!frozen || !strncmp(cases[i].function, "tutti_trainer_", 14))
            run_case(&cases[i]);
    }
    _exit(0);
}

/* A function without a status may end the process, if it says why, and so may one that writes into
 * a document where nothing can be written. */
static bool fair_end(const struct walk_case *c, int how, const char *said)
{
    bool document = !strncmp(c->function, "tutti_json_", 11) &&
                    (!strcmp(c->parameter, "j") || !strcmp(c->parameter, "key"));
    if ((c->has_status && !document) || !WIFSIGNALED(how) || WTERMSIG(how) != SIGABRT)
        return false;
    return !strncmp(said, "tutti: ", 7) && begins_with_name(said + 7, c->function) && !strchr(said, '/') &&
           strchr(said, '\n') == said + strlen(said) - 1;
}

static size_t walk(struct progress *p, int errors, unsigned *ret_ends)
{
    size_t bad = 0, n = sizeof cases / sizeof cases[0];
    char said[4096];
    int how;
    for (size_t next = 0; next < n; next = p->at + 1) {
        if (ftruncate(errors, 0) || lseek(errors, 0, SEEK_SET))
            exit(2);
        fflush(NULL);
        pid_t pid = fork();
        if (pid == 0)
            child(p, next, errors);
        if (pid < 0 || waitpid(pid, &how, 0) != pid)
            exit(2);
        if (WIFEXITED(how) && WEXITSTATUS(how) == 0)
            break;
        ssize_t len = pread(errors, said, sizeof said - 1, 0);
        said[len > 0 ? len : 0] = 0;
        const struct walk_case *c = &cases[p->at];
        ++*ret_ends;
        if (fair_end(c, how, said))
            continue;
        bad++;
        printf("%s: %s is %s%s: %s %d\n%.1500s\n", c->function, c->parameter, mode_names[c->mode], frozen ? " (frozen)" : "",
               WIFSIGNALED(how) ? "signal" : "exit status", WIFSIGNALED(how) ? WTERMSIG(how) : WEXITSTATUS(how), said);
    }
    return bad;
}

static void make_files(void)
{
    if (!mkdtemp(folder))
        exit(2);
    snprintf(topo_file, sizeof topo_file, "%s/topo.json", folder);
    snprintf(schedule_file, sizeof schedule_file, "%s/schedule.json", folder);
    snprintf(any_file, sizeof any_file, "%s/any", folder);
    if (tutti_topo_write(good_topo(), topo_file, &err) || tutti_schedule_write(good_schedule(), schedule_file, &err))
        exit(2);
    drop_all();
}

int main(void)
{
    struct progress *p = mmap(NULL, sizeof *p, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    FILE *errors = tmpfile();
    unsigned ends = 0;
    size_t bad = 0;
    nowhere = fopen("/dev/null", "w");
    if (p == MAP_FAILED || !errors || !nowhere)
        return 2;
    make_files();
    for (int round = 0; round < 2; round++) {
        frozen = round;
        bad += walk(p, fileno(errors), &ends);
    }
    unlink(topo_file);
    unlink(schedule_file);
    unlink(any_file);
    rmdir(folder);
    printf("%d functions, %zu wrong calls, %u ended the process with a sentence, %zu failures\n", FUNCTIONS, sizeof cases / sizeof cases[0],
           ends, bad);
    return bad > 0;
}
