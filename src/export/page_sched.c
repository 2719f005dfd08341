/* page_sched.c - a schedule with its times, message by message, as lists of integers.
 *
 * Messages are numbered by the time at which they start. Lists "m_*" have an entry per message,
 * "r_*" one per range of chunks that a message carries (m_n of them), "t_*" one per message and
 * segment, "l_*" one per local operation, "a_*" one per range of a local operation. Times are in
 * units of unit_us. The script (page/data.js) runs the operations step by step on counts of
 * contributions, by the lockstep rule of sched/sched.h. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "export/column.h"
#include "export/page.h"
#include "export/page_int.h"
#include "export/program.h"

enum { RANGES_MAX = 1 << 20, CELLS_MAX = 1 << 22, UNITS = 1 << 17 };

struct message {
    uint32_t src, dst, channel, step;
    uint64_t number; /* of its send in the schedule */
    uint64_t first;  /* its times: those of its segments are consecutive */
    uint64_t start_ps;
};
struct span_ps {
    uint64_t start, end;
};

/* Everything that is collected before it is written. */
struct work {
    const struct tt_page_schedule *p;
    struct tt_export_program program;
    struct message *message;
    size_t nmessages;
    uint32_t segments;    /* of the schedule ... */
    struct span_ps *time; /* message x segment */
    struct tt_vec acts;   /* struct tt_act, of all ranks */
    uint64_t *first_act;  /* by number of the operation; and the end */
};

static int compare_messages(const void *a, const void *b)
{
    const struct message *x = a, *y = b;
    const uint32_t kx[] = {x->src, x->dst, x->channel, x->step},
                   ky[] = {y->src, y->dst, y->channel, y->step};
    int order = tt_export_compare(kx, ky, countof(kx));
    return order ? order : x->number < y->number ? -1 : x->number > y->number;
}

static int compare_starts(const void *a, const void *b)
{
    const struct message *x = a, *y = b;
    if (x->start_ps != y->start_ps)
        return x->start_ps < y->start_ps ? -1 : 1;
    return compare_messages(a, b);
}

static int compare_events(const void *a, const void *b)
{
    const struct tt_page_event *x = a, *y = b;
    const uint32_t kx[] = {x->src, x->dst, x->channel, x->step, x->segment},
                   ky[] = {y->src, y->dst, y->channel, y->step, y->segment};
    int order = tt_export_compare(kx, ky, countof(kx));
    return order ? order : x->start_ps < y->start_ps ? -1 : x->start_ps > y->start_ps;
}

static uint64_t count_messages(const struct tt_sched *s)
{
    uint64_t n = 0;
    for (uint64_t i = 0; i < s->nops; i++)
        n += s->ops[i].kind == TT_OP_SEND;
    return n;
}

static void list_messages(struct work *x)
{
    const struct tt_sched *s = x->p->s;
    size_t n = 0;
    for (uint32_t r = 0; r < s->shape.ranks; r++) {
        const struct tt_slice sl = tt_sched_slice(s, r);
        for (uint32_t i = 0; i < sl.nops; i++) {
            const struct tt_op *op = &sl.ops[i];
            if (op->kind == TT_OP_SEND)
                x->message[n++] = (struct message){.src = r,
                                                   .dst = op->peer,
                                                   .channel = op->channel,
                                                   .step = op->step,
                                                   .number = tt_export_number(s, r, i)};
        }
    }
    assert(n == x->nmessages);
    if (n)
        qsort(x->message, n, sizeof *x->message, compare_messages);
}

/* Do the messages i and j have the same connection and step? */
static bool same_place(const struct message *a, const struct message *b)
{
    return a->src == b->src && a->dst == b->dst && a->channel == b->channel && a->step == b->step;
}

/* Gives every message the times of its segments. Both lists are sorted by connection and step;
 * of n messages there, the events are those of segment 0 in their order, of segment 1, ... */
static tutti_status match_events(struct work *x, struct tutti_error *err)
{
    const struct tt_page_schedule *p = x->p;
    const uint32_t k = x->segments;
    if (p->nevents != x->nmessages * k)
        return tt_fail(err, TUTTI_ERR_INCORRECT,
                       "the times are of %zu messages, the schedule has %zu", p->nevents,
                       x->nmessages * k);
    if (p->nevents)
        qsort(p->event, p->nevents, sizeof *p->event, compare_events);
    for (size_t i = 0, n; i < x->nmessages; i += n) {
        for (n = 1; i + n < x->nmessages && same_place(&x->message[i], &x->message[i + n]);)
            n++;
        for (size_t j = 0; j < n; j++) {
            struct message *m = &x->message[i + j];
            m->first = (i + j) * k;
            for (uint32_t seg = 0; seg < k; seg++) {
                const struct tt_page_event *e = &p->event[i * k + seg * n + j];
                if (e->src != m->src || e->dst != m->dst || e->channel != m->channel ||
                    e->step != m->step)
                    return tt_fail(err, TUTTI_ERR_INCORRECT,
                                   "rank %u: the message to rank %u in step %u has no time", m->src,
                                   m->dst, m->step);
                x->time[m->first + seg] = (struct span_ps){e->start_ps, e->end_ps};
            }
            m->start_ps = x->time[m->first].start;
        }
    }
    if (x->nmessages)
        qsort(x->message, x->nmessages, sizeof *x->message, compare_starts);
    return TUTTI_OK;
}

/* The acts of all ranks, kept: both ends of a message are cut at the same chunks. *ret_many: there
 * are too many for a page. */
static tutti_status collect_acts(struct work *x, bool *ret_many, struct tutti_error *err)
{
    const struct tt_sched *s = x->p->s;
    x->first_act = tt_alloc(s->nops + 1, sizeof *x->first_act);
    if (!x->first_act)
        return tt_fail_memory(err, "operations");
    *ret_many = false;
    for (uint32_t r = 0; r < s->shape.ranks && !*ret_many; r++) {
        tutti_status st = tt_export_program_rank(&x->program, r, err);
        if (st)
            return st;
        for (uint32_t i = 0; i < x->program.slice.nops; i++)
            x->first_act[tt_export_number(s, r, i)] = x->acts.len + x->program.first_act[i];
        if (x->program.acts.len &&
            !tt_vec_push(&x->acts, x->program.acts.data, x->program.acts.len))
            return tt_fail_memory(err, "operations");
        *ret_many = x->acts.len > RANGES_MAX;
    }
    x->first_act[s->nops] = x->acts.len;
    return TUTTI_OK;
}

static bool write_column(struct tt_json_writer *w, const char *key, struct tt_column *c)
{
    tt_json_key(w, key);
    return tt_export_column_write(c, w);
}

/* Which rank sends what to which in which step, and from where to where. */
static bool write_messages(const struct work *x, struct tt_json_writer *w)
{
    enum { SRC, DST, STEP, CHANNEL, N, FIRST, LEN, FROM, TO, ADD, COLUMNS };
    static const char *const key[COLUMNS] = {"m_src",   "m_to",  "m_step", "m_channel", "m_n",
                                             "r_first", "r_len", "r_from", "r_buf",     "r_add"};
    struct tt_column c[COLUMNS] = {0};
    const struct tt_act *acts = x->acts.data;
    bool ok = true;
    for (size_t i = 0; i < x->nmessages; i++) {
        const struct message *m = &x->message[i];
        const uint64_t there = x->program.partner[m->number],
                       n = x->first_act[m->number + 1] - x->first_act[m->number];
        tt_export_column_add(&c[SRC], m->src);
        tt_export_column_add(&c[DST], (int64_t)m->dst - m->src);
        tt_export_column_add(&c[STEP], m->step);
        tt_export_column_add(&c[CHANNEL], m->channel);
        tt_export_column_add(&c[N], (int64_t)n);
        for (uint64_t k = 0; k < n; k++) {
            const struct tt_act *a = &acts[x->first_act[m->number] + k],
                                *b = &acts[x->first_act[there] + k];
            assert(a->chunk == b->chunk && a->len == b->len);
            tt_export_column_add(&c[FIRST], a->chunk);
            tt_export_column_add(&c[LEN], a->len);
            tt_export_column_add(&c[FROM], a->src);
            tt_export_column_add(&c[TO], b->buf);
            tt_export_column_add(&c[ADD], b->kind == TT_ACT_RECV_ADD ? (int64_t)b->src : -1);
        }
    }
    for (int i = 0; i < COLUMNS; i++)
        ok = write_column(w, key[i], &c[i]) && ok;
    return ok;
}

/* Copies and sums at the ranks, in the order in which a rank lists them. */
static bool write_locals(const struct work *x, struct tt_json_writer *w)
{
    enum { RANK, STEP, N, FIRST, LEN, BUF, SRC, ADD, COLUMNS };
    static const char *const key[COLUMNS] = {"l_rank", "l_step", "l_n",   "a_first",
                                             "a_len",  "a_buf",  "a_src", "a_add"};
    struct tt_column c[COLUMNS] = {0};
    const struct tt_sched *s = x->p->s;
    const struct tt_act *acts = x->acts.data;
    bool ok = true;
    for (uint32_t r = 0; r < s->shape.ranks; r++) {
        const struct tt_slice sl = tt_sched_slice(s, r);
        for (uint32_t i = 0; i < sl.nops; i++) {
            if (sl.ops[i].kind != TT_OP_COPY && sl.ops[i].kind != TT_OP_REDUCE)
                continue;
            const uint64_t number = tt_export_number(s, r, i), end = x->first_act[number + 1];
            tt_export_column_add(&c[RANK], r);
            tt_export_column_add(&c[STEP], sl.ops[i].step);
            tt_export_column_add(&c[N], (int64_t)(end - x->first_act[number]));
            for (uint64_t k = x->first_act[number]; k < end; k++) {
                tt_export_column_add(&c[FIRST], acts[k].chunk);
                tt_export_column_add(&c[LEN], acts[k].len);
                tt_export_column_add(&c[BUF], acts[k].buf);
                tt_export_column_add(&c[SRC], acts[k].src);
                tt_export_column_add(&c[ADD], acts[k].kind == TT_ACT_ADD);
            }
        }
    }
    for (int i = 0; i < COLUMNS; i++)
        ok = write_column(w, key[i], &c[i]) && ok;
    return ok;
}

/* Start and duration of each message and segment; when these are too many, of each message from the
 * start of its first segment to the end of the last. */
static bool write_times(const struct work *x, struct tt_json_writer *w)
{
    const bool each = x->nmessages * x->segments <= TT_PAGE_MOVES;
    const uint64_t unit = x->p->time_ps / UNITS + 1;
    struct tt_column start = {0}, length = {0};
    for (size_t i = 0; i < x->nmessages; i++) {
        const struct span_ps *t = &x->time[x->message[i].first];
        uint64_t first = t->start, last = t->end;
        for (uint32_t k = 0; k < x->segments; k++) {
            if (each) {
                tt_export_column_add(&start, (int64_t)(t[k].start / unit));
                tt_export_column_add(&length, (int64_t)(t[k].end / unit - t[k].start / unit));
            }
            first = first < t[k].start ? first : t[k].start;
            last = last > t[k].end ? last : t[k].end;
        }
        if (!each) {
            tt_export_column_add(&start, (int64_t)(first / unit));
            tt_export_column_add(&length, (int64_t)(last / unit - first / unit));
        }
    }
    tt_json_member_real(w, "unit_us", (double)unit / 1e6);
    tt_json_member_u64(w, "moves", each ? x->segments : 1);
    bool ok = write_column(w, "t_start", &start);
    return write_column(w, "t_length", &length) && ok;
}

/* Which places hold data at the start, and which the result must be in, by rank and chunk; and
 * where chunks begin, in bytes. */
static bool write_shape(const struct work *x, struct tt_json_writer *w, struct tutti_error *err)
{
    const struct tt_shape *s = &x->p->s->shape;
    struct tt_column in = {0}, out = {0}, offset = {0};
    struct tt_bind bind;
    if (tt_sched_bind_make(s, x->p->count, x->p->dtype, &bind, err))
        return false;
    for (uint32_t c = 0; c <= s->chunks; c++)
        tt_export_column_add(&offset, (int64_t)(tt_sched_bind_offset(&bind, c) * bind.elem_bytes));
    tt_sched_bind_free(&bind);
    for (uint32_t r = 0; r < s->ranks && (uint64_t)s->ranks * s->chunks <= CELLS_MAX; r++)
        for (uint32_t c = 0; c < s->chunks; c++) {
            tt_export_column_add(&in, tt_sched_shape_has_input(s, r, c));
            tt_export_column_add(&out, tt_sched_shape_has_output(s, r, c));
        }
    bool ok = write_column(w, "offset", &offset);
    ok = write_column(w, "input", &in) && ok;
    return write_column(w, "output", &out) && ok;
}

static void work_free(struct work *x)
{
    tt_export_program_close(&x->program);
    tt_vec_free(&x->acts);
    free(x->message);
    free(x->time);
    free(x->first_act);
}

/* Everything message by message. *ret_many: too much for a page, and nothing was written. */
static tutti_status write_all(struct work *x, struct tt_json_writer *w, bool *ret_many,
                              struct tutti_error *err)
{
    tutti_status st = tt_export_program_open(x->p->s, &x->program, err);
    if (!st)
        st = collect_acts(x, ret_many, err);
    if (st || *ret_many)
        return st;
    x->message = tt_alloc(x->nmessages + 1, sizeof *x->message);
    x->time = tt_alloc(x->nmessages * x->segments + 1, sizeof *x->time);
    if (!x->message || !x->time)
        return tt_fail_memory(err, "messages");
    list_messages(x);
    st = match_events(x, err);
    if (st)
        return st;
    bool ok = write_shape(x, w, err);
    ok = write_messages(x, w) && ok;
    ok = write_locals(x, w) && ok;
    ok = write_times(x, w) && ok;
    return ok ? tt_export_page_routes(x->p, w, err) : tt_fail_memory(err, "data of a page");
}

tutti_status tt_export_page_schedule(const struct tt_page_schedule *p, struct tt_json_writer *w,
                                     struct tutti_error *err)
{
    const struct tt_shape *s = &p->s->shape;
    struct work x = {.p = p,
                     .acts = {.elem = sizeof(struct tt_act)},
                     .segments = s->segments,
                     .nmessages = count_messages(p->s)};
    bool many = p->fold->folded || x.nmessages > TT_PAGE_MOVES;
    tutti_status st = TUTTI_OK;
    tt_json_object(w);
    tt_json_member_u64(w, "ranks", s->ranks);
    tt_json_member_u64(w, "chunks", s->chunks);
    tt_json_member_u64(w, "buffers", s->nbufs);
    tt_json_member_u64(w, "steps", p->s->nsteps);
    tt_json_member_bool(w, "reduces", tt_sched_coll_reduces(s->coll));
    if (!many)
        st = write_all(&x, w, &many, err);
    if (!st && many)
        st = tt_export_page_use(p, w, err);
    tt_json_object_end(w);
    work_free(&x);
    return st;
}
