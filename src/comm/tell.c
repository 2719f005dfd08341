/* tell.c - what a communicator writes to the log: warnings of variables that nobody knows, how it was opened, which plan a
 * kind of call got, why it failed. Once each; nothing is formatted unless its level is wanted. And to the launcher: who is to blame. */
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/variables.h"
#include "comm/parts.h"

static uint32_t world_rank(const struct tt_comm *c)
{
    return c->members[c->rank];
}

/* Rank 0, once in the life of its process. */
static void warn_of_variables(const struct tt_comm *c)
{
    static _Atomic bool warned;
    struct tt_unknown_variable u;
    if (world_rank(c) != 0 || atomic_exchange(&warned, true))
        return;
    for (size_t i = 0; tt_variable_unknown(i, &u); i++)
        tt_log_write(TT_LOG_WARN, 0, "unknown variable %s%s%s", u.name, *u.near ? "; " : "", u.near);
}

static void say_speed(const struct tt_comm *c, const char *what, const struct tt_speed *s)
{
    char rate[32], latency[32];
    if (s->bw)
        tt_log_write(TT_LOG_INFO, world_rank(c), "speed of %s: %s, latency %s", what, tt_format_rate((double)s->bw, rate, sizeof rate),
                     tt_format_time(s->latency_ps, latency, sizeof latency));
}

void tt_tell_open(const struct tt_comm *c)
{
    struct tt_comm_place place;
    warn_of_variables(c);
    if (!tt_log_wants(TT_LOG_INFO))
        return;
    tt_comm_place(c, c->rank, &place);
    tt_log_write(TT_LOG_INFO, world_rank(c), "open on %s: %" PRIu32 " rank%s, %" PRIu32 " of them on this host; transport %s; network %s",
                 place.host, c->size, c->size == 1 ? "" : "s", c->wire.nlocal, c->config.transport ? c->config.transport : "auto",
                 c->topo->spec);
    if (c->rank != 0)
        return;
    say_speed(c, "shared memory", &c->speeds.shm);
    say_speed(c, "TCP", &c->speeds.tcp);
    if (c->speeds.taken > TT_TAKEN_MOST)
        tt_log_write(TT_LOG_INFO, 0, "these speeds were measured while others used %.0f%% of the cores: predictions may be off",
                     (double)c->speeds.taken / 10);
}

void tt_tell_plan(const struct tt_comm *c, const struct tt_agreed *a)
{
    static const char *const why[] = {"the planner's choice", "as named", "by the tuning file", "by the plan that was given"};
    char size[32], time[32], bound[32];
    const struct tt_problem *p = &a->problem;
    if (!tt_log_wants(TT_LOG_INFO))
        return;
    tt_log_write(c->rank == 0 ? TT_LOG_INFO : TT_LOG_DEBUG, world_rank(c),
                 "%s of %s %s on %" PRIu32 " rank%s runs by %s, %s; predicted %s, bound %s, plan %016" PRIx64, tt_coll_name(p->coll),
                 tt_format_size(p->count * tt_dtype_bytes(p->dtype), size, sizeof size), tt_dtype_name(p->dtype), p->ranks,
                 p->ranks == 1 ? "" : "s", a->name, why[a->origin], tt_format_time(a->predicted_ps, time, sizeof time),
                 tt_format_time(a->bound_ps, bound, sizeof bound), a->hash);
}

/* The program hears of it nowhere else, unless it has ended the job itself. */
void tt_tell_close(const struct tt_comm *c)
{
    struct tt_verdict v;
    if (tt_watch_verdict(c->world->watch, &v) && v.blame == TT_BLAME_ABORTED && v.culprit == world_rank(c))
        return;
    tt_log_write(TT_LOG_WARN, world_rank(c), "found when the communicator was closed: %s", c->last.text);
}

void tt_tell_failure(const struct tt_comm *c)
{
    tt_log_write(TT_LOG_ERROR, world_rank(c), "%s", c->last.text);
}

/* "2 of 4: rank 2 (host a, pid 4711) is dead ...": a line in one piece. The launcher sees processes end in any order and cannot know it. */
void tt_tell_verdict(const struct tt_world *w, const struct tt_verdict *v)
{
    const char *path = getenv("TUTTI_VERDICT");
    char line[sizeof v->text + 40];
    int fd = path && *path ? open(path, O_WRONLY | O_APPEND | O_CLOEXEC) : -1;
    if (fd < 0)
        return;
    int n = snprintf(line, sizeof line, "%" PRIu32 " of %" PRIu32 ": %s\n", v->culprit, tt_boot_config(w->boot)->size, v->text);
    if (write(fd, line, (size_t)n) != n)
        tt_log_write(TT_LOG_INFO, v->culprit, "TUTTI_VERDICT: %.200s cannot be written", path);
    close(fd);
}
