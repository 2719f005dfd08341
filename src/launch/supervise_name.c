/* supervise_name.c - which rank a failed job names, and what is said of the others.
 *
 * The rank that the notes of the ranks blame (base/blame.h) is named if it failed itself. Otherwise
 * one that a signal killed is named before one that exited: an exit is often the answer to a peer's
 * death. Of several, the first by rounds of waitpid; within a round the kernel tells no order, and
 * the lowest is named. Nothing here changes the phase of the job or sends a signal. */
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "cli/cli.h"
#include "launch/supervise_int.h"

/* How long ranks have to end by themselves, in seconds, for messages. */
static double patience(const struct sup *s)
{
    return (double)(s->job->timeout_ns + SUP_REPORT_NS) / (double)SECOND;
}

bool launch_rank_failed(const struct sup_live *l)
{
    return l->ended && l->status != 0 && !l->lost;
}

uint32_t launch_count_well(const struct sup *s)
{
    uint32_t n = 0;
    for (uint32_t r = 0; r < s->job->size; r++)
        n += !s->live[r].ended || s->live[r].status == 0;
    return n;
}

/* The signal that a rank died of; 0: it exited. The shell on another host reports a signal as
 * 128 + its number. */
static int death_of(const struct sup *s, uint32_t rank)
{
    int status = s->live[rank].status;
    if (WIFSIGNALED(status))
        return WTERMSIG(status);
    int code = WEXITSTATUS(status);
    return s->job->ranks[rank].remote && code > 128 && code <= 128 + SIGRTMAX ? code - 128 : 0;
}

/* The first note in the file for which `fits` holds (NULL: any), and whether any note is
 * "unheard". Long lines come in pieces: only their beginnings are parsed. */
static struct sup_blame find_note(const struct sup *s,
                                  bool (*fits)(const struct sup *s, const struct sup_blame *b))
{
    char path[64], line[640];
    struct sup_blame best = {.rank = s->job->size}, b;
    bool begins = true; /* a line, not the rest of a long one */
    snprintf(path, sizeof path, "/proc/self/fd/%d", s->job->verdict_fd);
    FILE *in = fopen(path, "re");
    while (in && fgets(line, sizeof line, in)) {
        if (begins && launch_read_note(line, s->job->size, &b)) {
            bool unheard = best.unheard || b.unheard;
            best = *best.text || (fits && !fits(s, &b)) ? best : b;
            best.unheard = unheard;
        }
        begins = strchr(line, '\n');
    }
    if (in)
        fclose(in);
    return best;
}

/* The rank to name: the blamed one if it failed; else the first of those that were killed; else
 * the first of those that exited. Among those of one round of waitpid the lowest. */
static uint32_t find_culprit(const struct sup *s)
{
    uint32_t best = s->job->size;
    if (s->blame.rank < s->job->size && launch_rank_failed(&s->live[s->blame.rank]))
        return s->blame.rank;
    for (uint32_t r = 0; r < s->job->size; r++) {
        if (!launch_rank_failed(&s->live[r]))
            continue;
        bool worse = best < s->job->size && death_of(s, r) && !death_of(s, best);
        bool alike = best < s->job->size && !death_of(s, r) == !death_of(s, best);
        if (best == s->job->size || worse || (alike && s->live[r].turn < s->live[best].turn))
            best = r;
    }
    return best;
}

/* "rank 2 (host a, pid 4711)" */
static const char *name_rank(const struct sup *s, uint32_t r, char who[160])
{
    const struct sup_rank *rank = &s->job->ranks[r];
    if (rank->remote)
        snprintf(who, 160, "rank %u (host %s)", r, rank->host);
    else
        snprintf(who, 160, "rank %u (%s%s%spid %d)", r, rank->host ? "host " : "",
                 rank->host ? rank->host : "", rank->host ? ", " : "", (int)s->live[r].pid);
    return who;
}

void launch_say_end(const struct sup *s, uint32_t r)
{
    int sig = death_of(s, r);
    char who[160];
    name_rank(s, r, who);
    if (sig)
        fprintf(stderr, "tutti %s: %s was killed by signal %d (%s)", s->job->name, who, sig,
                strsignal(sig));
    else if (s->job->ranks[r].remote && WEXITSTATUS(s->live[r].status) == 255)
        fprintf(stderr, "tutti %s: %s exited with status 255, which may be ssh's own", s->job->name,
                who);
    else
        fprintf(stderr, "tutti %s: %s exited with status %d", s->job->name, who,
                WEXITSTATUS(s->live[r].status));
}

/* Prints one line about the culprit, and about the blamed rank when that is another. */
static void say_culprit(const struct sup *s)
{
    uint32_t r = s->culprit, blamed = s->blame.rank, well = launch_count_well(s);
    char who[160];
    if (s->blame.all && !death_of(s, r)) {
        fprintf(stderr, "tutti %s: the ranks failed together: %s\n", s->job->name, s->blame.text);
        return;
    }
    launch_say_end(s, r);
    if (s->job->least)
        fprintf(stderr, "; %u rank%s left, at least %u %s needed", well,
                well == 1 ? " is" : "s are", s->job->least, s->job->least == 1 ? "is" : "are");
    if (blamed < s->job->size && blamed != r && !s->live[blamed].lost)
        fprintf(stderr, "; the ranks blame %s, which %s", name_rank(s, blamed, who),
                s->live[blamed].ended ? "has ended without an error" : "is still running");
    fputc('\n', stderr);
}

bool launch_awaits_blamed(const struct sup *s)
{
    struct sup_blame b = find_note(s, NULL);
    return b.rank < s->job->size && !s->live[b.rank].ended;
}

/* Has a signal stopped the rank? Of one on another host it is not known. */
static bool is_stopped(const struct sup *s, uint32_t rank)
{
    return !s->live[rank].ended && !s->job->ranks[rank].remote &&
           launch_is_suspended(s->live[rank].pid);
}

static bool blames_stopped(const struct sup *s, const struct sup_blame *b)
{
    return !b->unheard && b->rank < s->job->size && is_stopped(s, b->rank);
}

static bool is_unheard(const struct sup *s, const struct sup_blame *b)
{
    (void)s;
    return b->unheard;
}

struct sup_blame launch_find_hanging(const struct sup *s)
{
    struct sup_blame none = {.rank = s->job->size};
    if (!s->left || s->left == s->job->size)
        return none;
    for (uint32_t r = 0; r < s->job->size; r++)
        if (!s->live[r].ended && !is_stopped(s, r))
            return none;
    return find_note(s, blames_stopped);
}

void launch_name_hanging(struct sup *s, const struct sup_blame *b)
{
    char who[160];
    s->blame = *b;
    s->culprit = b->rank;
    fprintf(stderr,
            "tutti %s: %s, which the other ranks blame, is still stopped %.3g s after they have "
            "ended: %s\n",
            s->job->name, name_rank(s, s->culprit, who), patience(s), s->blame.text);
}

void launch_name_unheard(struct sup *s)
{
    s->blame = find_note(s, is_unheard);
    if (!s->blame.unheard)
        return;
    s->culprit = s->blame.rank;
    fprintf(stderr, "tutti %s: the ranks exited with status 0, but results are wrong: %s\n",
            s->job->name, s->blame.text);
}

bool launch_is_told(const struct sup *s)
{
    const struct sup_live *first = &s->live[0];
    bool alike = s->job->own && first->ended && WIFEXITED(first->status);
    for (uint32_t r = 0; alike && r < s->job->size; r++)
        alike = s->live[r].ended && s->live[r].status == first->status;
    return alike;
}

void launch_name_culprit(struct sup *s)
{
    s->blame = find_note(s, NULL);
    s->culprit = find_culprit(s);
    if (s->stopped_by)
        fprintf(stderr, "tutti %s: stopped by signal %d (%s)\n", s->job->name, s->stopped_by,
                strsignal(s->stopped_by));
    else if (!launch_is_told(s))
        say_culprit(s);
}

/* Writes "0, 1, 3 and 12 more": the ranks, without the culprit, for which `is` holds. False when
 * there are none. */
static bool list_ranks(const struct sup *s, bool (*is)(const struct sup_live *l), char *buf,
                       size_t cap)
{
    size_t used = 0, count = 0, shown = 0;
    for (uint32_t r = 0; r < s->job->size; r++) {
        if (r == s->culprit || !is(&s->live[r]))
            continue;
        count++;
        if (shown >= 8)
            continue;
        used += (size_t)snprintf(buf + used, cap - used, "%s%u", shown++ ? ", " : "", r);
    }
    if (count > shown)
        snprintf(buf + used, cap - used, " and %zu more", count - shown);
    return count > 0;
}

static bool failed_too(const struct sup_live *l)
{
    return launch_rank_failed(l) && !l->told;
}

static bool was_told(const struct sup_live *l)
{
    return l->told;
}

void launch_say_rest(struct sup *s)
{
    char which[160];
    if (s->stopped_by)
        s->culprit = s->job->size; /* list all ranks below */
    else if (launch_is_told(s) || (s->blame.all && !death_of(s, s->culprit)))
        return;
    if (!s->stopped_by && list_ranks(s, failed_too, which, sizeof which))
        fprintf(stderr, "tutti %s: failed too: %s\n", s->job->name, which);
    if (s->ended_by_us && list_ranks(s, was_told, which, sizeof which))
        fprintf(stderr, "tutti %s: still running %.3g s later and ended: %s\n", s->job->name,
                patience(s), which);
}
