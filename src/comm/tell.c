/* tell.c - what a communicator writes to the log: warnings about unknown variables, how it was
 * opened, which plan a kind of call got, why it failed. Each is written once; nothing is formatted
 * unless its level is wanted. Also what it tells the launcher: which rank is to blame. */
#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/blame.h"
#include "base/variables.h"
#include "comm/comm_int.h"

static uint32_t world_rank(const struct tt_comm *c)
{
    return c->members[c->rank];
}

/* By rank 0, once in the life of its process. */
static void warn_of_variables(const struct tt_comm *c)
{
    static _Atomic bool warned;
    struct tt_unknown_variable u;
    if (world_rank(c) != 0 || atomic_exchange(&warned, true))
        return;
    for (size_t i = 0; tt_variable_unknown(i, &u); i++)
        tt_log_write(TT_LOG_WARN, 0, "unknown variable %s%s%s", u.name, *u.near ? "; " : "",
                     u.near);
}

static void say_speed(const struct tt_comm *c, const char *what, const struct tt_speed *s)
{
    char rate[32], latency[32];
    if (s->bw)
        tt_log_write(TT_LOG_INFO, world_rank(c), "speed of %s: %s, latency %s", what,
                     tt_format_rate((double)s->bw, rate, sizeof rate),
                     tt_format_time(s->latency_ps, latency, sizeof latency));
}

void tt_comm_tell_open(const struct tt_comm *c)
{
    struct tt_comm_place place;
    warn_of_variables(c);
    if (!tt_log_wants(TT_LOG_INFO))
        return;
    tt_comm_place(c, c->rank, &place);
    tt_log_write(TT_LOG_INFO, world_rank(c),
                 "open on %s: %" PRIu32 " rank%s, %" PRIu32
                 " of them on this host; transport %s; network %s",
                 place.host, c->size, c->size == 1 ? "" : "s", c->wire.nlocal,
                 c->config.transport ? c->config.transport : "auto", c->topo->spec);
    if (c->rank != 0)
        return;
    say_speed(c, "shared memory", &c->speeds.shm);
    say_speed(c, "TCP", &c->speeds.tcp);
    if (c->speeds.taken > TT_TAKEN_MOST)
        tt_log_write(TT_LOG_INFO, 0,
                     "these speeds were measured while others used %.0f%% of the cores: "
                     "predictions may be off",
                     (double)c->speeds.taken / 10);
}

void tt_comm_tell_plan(const struct tt_comm *c, const struct tt_agreed *a)
{
    static const char *const why[] = {"the planner's choice", "as named", "by the tuning file",
                                      "by the plan that was given"};
    char size[32], time[32], bound[32];
    const struct tt_problem *p = &a->problem;
    if (!tt_log_wants(TT_LOG_INFO))
        return;
    tt_log_write(c->rank == 0 ? TT_LOG_INFO : TT_LOG_DEBUG, world_rank(c),
                 "%s of %s %s on %" PRIu32
                 " rank%s runs by %s, %s; predicted %s, bound %s, plan %016" PRIx64,
                 tt_sched_coll_name(p->coll),
                 tt_format_size(p->count * tt_sched_dtype_bytes(p->dtype), size, sizeof size),
                 tt_sched_dtype_name(p->dtype), p->ranks, p->ranks == 1 ? "" : "s", a->name,
                 why[a->origin], tt_format_time(a->predicted_ps, time, sizeof time),
                 tt_format_time(a->bound_ps, bound, sizeof bound), a->hash);
}

/* The program learns of it nowhere else, unless it ended the job itself. Mismatched calls have left
 * wrong results, so the launcher is told: the job must not end as if it had succeeded. */
void tt_comm_tell_close(const struct tt_comm *c)
{
    struct tt_verdict v;
    bool judged = tt_watch_verdict(c->world->watch, &v);
    if (judged && v.blame == TT_BLAME_ABORTED && v.culprit == world_rank(c))
        return;
    if (judged && v.blame == TT_BLAME_MISMATCHED)
        tt_blame_note(TT_NOTED_UNHEARD, v.culprit, tt_boot_config(c->world->boot)->size, v.text);
    tt_log_write(TT_LOG_WARN, world_rank(c), "found when the communicator was closed: %s",
                 c->last.text);
}

void tt_comm_tell_unread(const struct tt_comm *c)
{
    struct tt_letter l;
    uint32_t n = tt_exec_letter_unread(c->context, &l);
    char more[32] = "", tag[32] = "";
    if (!n || l.kind >= TUTTI_DTYPE_COUNT)
        return;
    if (n > 1)
        snprintf(more, sizeof more, "; and %" PRIu32 " more", n - 1);
    if (l.from_tag)
        snprintf(tag, sizeof tag, " (tag %" PRIu32 ")", l.from_tag);
    tt_log_write(TT_LOG_WARN, world_rank(c),
                 "found when the communicator was closed: a message of %" PRIu64
                 " %s from rank %" PRIu32 "%s was never received%s",
                 l.got / tt_sched_dtype_bytes((tutti_dtype)l.kind),
                 tt_sched_dtype_name((tutti_dtype)l.kind), c->members[l.from], tag, more);
}

void tt_comm_tell_failure(const struct tt_comm *c)
{
    tt_log_write(TT_LOG_ERROR, world_rank(c), "%s", c->last.text);
}

void tt_comm_tell_verdict(const struct tt_comm *c, const struct tt_verdict *v)
{
    tt_blame_note(c->closing ? TT_NOTED_HINT : TT_NOTED_VERDICT, v->culprit,
                  tt_boot_config(c->world->boot)->size, v->text);
}

/* Short, because every rank has the reason and prints it. */
void tt_comm_tell_refusal(const struct tt_world *w, const char *what, const char *name)
{
    uint32_t size = tt_boot_config(w->boot)->size;
    char text[400];
    snprintf(text, sizeof text, "%s %.300s was refused", what, name ? name : "");
    tt_blame_note(TT_NOTED_HINT, size, size, text);
}
