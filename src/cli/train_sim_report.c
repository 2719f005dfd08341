/* train_sim_report.c - the reports of tutti train-sim: a table or one JSON document of simulated
 * steps, the lists of models, policies and fusions, and the timeline.
 *
 * Timeline: one process per policy, with tracks "compute", "communication" and "shard updates". It
 * shows one period of the steady state, from the start of a backward pass to the end of the forward
 * pass that follows. */
#include "cli/train_sim.h"

#include <stdlib.h>
#include <string.h>

#include "cli/output.h"

/* ---- JSON ---- */

/* The buckets of one policy, in the order of its list. */
static void json_buckets(struct tutti_json *j, const struct tutti_trainsim *s)
{
    struct tutti_trainsim_bucket b;
    tutti_json_array(j, "bucket_list");
    for (size_t i = 0; tutti_trainsim_bucket(s, i, &b); i++) {
        tutti_json_object(j, NULL);
        tutti_json_string(j, "first", b.first);
        tutti_json_string(j, "last", b.last);
        tutti_json_u64(j, "tensors", b.tensors);
        tutti_json_u64(j, "offset_bytes", b.offset_bytes);
        tutti_json_u64(j, "bytes", b.bytes);
        tutti_json_string(j, "algo", b.algo);
        tutti_json_bool(j, "decoupled", b.decoupled);
        tutti_json_end(j);
    }
    tutti_json_end(j);
}

/* The trials of bayesian fusion, and its log as one string, which we free. */
static void json_trials(struct tutti_json *j, const struct tutti_trainsim *s)
{
    struct tutti_trainsim_trial t;
    /* Ours to free; NULL when out of memory, which JSON writes as null. */
    char *log = tutti_trainsim_log(s);
    tutti_json_array(j, "trials");
    for (size_t i = 0; tutti_trainsim_trial(s, i, &t); i++) {
        tutti_json_object(j, NULL);
        tutti_json_u64(j, "threshold_bytes", t.threshold_bytes);
        tutti_json_real(j, "iteration_us", t.time_us);
        tutti_json_end(j);
    }
    tutti_json_end(j);
    tutti_json_string(j, "log", log);
    free(log);
}

/* The fields of one policy, inside an object that is open already. */
static void json_policy(struct tutti_json *j, const struct tutti_trainsim *s, bool buckets)
{
    struct tutti_trainsim_info i;
    char hash[20];
    tutti_trainsim_info(s, &i);
    tutti_json_string(j, "policy", i.policy);
    tutti_json_real(j, "iteration_us", i.iteration_us);
    tutti_json_real(j, "forward_us", i.forward_us);
    tutti_json_real(j, "backward_us", i.backward_us);
    tutti_json_real(j, "update_us", i.update_us);
    tutti_json_real(j, "comm_us", i.comm_us);
    tutti_json_real(j, "stream_us", i.stream_us);
    tutti_json_real(j, "exposed_comm_us", i.exposed_comm_us);
    tutti_json_real(j, "ideal_us", i.ideal_us);
    tutti_json_real(j, "limit_us", i.limit_us);
    tutti_json_string(j, "fusion", i.fusion);
    tutti_json_string(j, "order", i.order);
    if (i.threshold_bytes)
        tutti_json_u64(j, "threshold_bytes", i.threshold_bytes);
    else
        tutti_json_null(j, "threshold_bytes");
    tutti_json_u64(j, "buckets", i.buckets);
    tutti_json_u64(j, "launches", i.launches);
    snprintf(hash, sizeof hash, "%016llx", (unsigned long long)i.hash);
    tutti_json_string(j, "hash", hash);
    if (i.trials)
        json_trials(j, s);
    if (buckets)
        json_buckets(j, s);
}

void cli_train_sim_print_json(const struct train_sim_answer *x)
{
    struct tutti_model_info m;
    struct tutti_json *j = tutti_json_open(stdout);
    tutti_model_info(x->model, &m);
    tutti_json_object(j, NULL);
    tutti_json_string(j, "model", m.name);
    tutti_json_u64(j, "batch", m.batch);
    tutti_json_string(j, "times", m.measured ? "measured" : "derived");
    tutti_json_string(j, "times_source", m.source);
    tutti_json_u64(j, "parameters", m.parameters);
    tutti_json_u64(j, "bytes", m.bytes);
    tutti_json_u64(j, "tensors", m.tensors);
    tutti_json_u64(j, "layers", m.layers);
    tutti_json_string(j, "topo", x->topo);
    tutti_json_string(j, "level", x->level);
    tutti_json_string(j, "algo", x->algo);
    if (x->all)
        tutti_json_array(j, "policies");
    for (size_t i = 0; i < x->n; i++) {
        if (x->all)
            tutti_json_object(j, NULL);
        json_policy(j, x->sims[i], x->buckets);
        if (x->all)
            tutti_json_end(j);
    }
    if (x->all)
        tutti_json_end(j);
    tutti_json_end(j);
    tutti_json_close(j);
}

/* ---- text ---- */

/* A line per bucket: size, algorithm, first and last tensor. */
static void print_buckets(const struct tutti_trainsim *s)
{
    struct tutti_trainsim_bucket b;
    char size[64];
    for (size_t i = 0; tutti_trainsim_bucket(s, i, &b); i++) {
        printf("  bucket %3zu  %10s  %-18s %s", i, tutti_format_size(b.bytes, size, sizeof size),
               b.algo, b.first);
        if (b.tensors > 1)
            printf(" .. %s (%u tensors)", b.last, b.tensors);
        if (b.offset_bytes > 0)
            printf(" from byte %llu", (unsigned long long)b.offset_bytes);
        printf("\n");
    }
}

/* One row; * marks the fastest policy. The order is named only when it is not that of readiness. */
static void print_policy(const struct tutti_trainsim *s, double best_us, double limit_us)
{
    struct tutti_trainsim_info i;
    char step[64], exposed[64], ideal[64], fusion[96], size[64];
    tutti_trainsim_info(s, &i);
    if (i.threshold_bytes)
        snprintf(fusion, sizeof fusion, "%u buckets, threshold %s", i.buckets,
                 tutti_format_size(i.threshold_bytes, size, sizeof size));
    else
        snprintf(fusion, sizeof fusion, "%u bucket%s", i.buckets, i.buckets == 1 ? "" : "s");
    printf("%c %-14s %11s %11s %11s %8.3f  %s%s%s\n", i.iteration_us == best_us ? '*' : ' ',
           i.policy, tutti_format_us(i.iteration_us, step, sizeof step),
           tutti_format_us(i.exposed_comm_us, exposed, sizeof exposed),
           tutti_format_us(i.ideal_us, ideal, sizeof ideal),
           limit_us > 0 ? i.iteration_us / limit_us : 1, fusion,
           strcmp(i.order, "ready") ? ", order " : "", strcmp(i.order, "ready") ? i.order : "");
}

double cli_train_sim_best(const struct train_sim_answer *x)
{
    struct tutti_trainsim_info i;
    double best = 0;
    for (size_t k = 0; k < x->n; k++) {
        tutti_trainsim_info(x->sims[k], &i);
        if (k == 0 || i.iteration_us < best)
            best = i.iteration_us;
    }
    return best;
}

double cli_train_sim_limit(const struct train_sim_answer *x)
{
    struct tutti_trainsim_info i;
    double least = 0;
    for (size_t k = 0; k < x->n; k++) {
        tutti_trainsim_info(x->sims[k], &i);
        least = k == 0 || i.limit_us < least ? i.limit_us : least;
    }
    return least;
}

/* The log of bayesian fusion; empty for other fusions. */
static void print_log(const struct tutti_trainsim *s)
{
    char *log = tutti_trainsim_log(s);
    if (log)
        fputs(log, stdout);
    free(log);
}

void cli_train_sim_print_text(const struct train_sim_answer *x)
{
    struct tutti_model_info m;
    struct tutti_trainsim_info i;
    char a[64], b[64], c[64], d[64];
    tutti_model_info(x->model, &m);
    tutti_trainsim_info(x->sims[0], &i);
    printf("%s, batch %u a rank: %llu parameters (%s) in %u tensors of %u layers; times %s\n",
           m.name, m.batch, (unsigned long long)m.parameters,
           tutti_format_size(m.bytes, a, sizeof a), m.tensors, m.layers, m.source);
    double limit_us = cli_train_sim_limit(x);
    printf(
        "on %s: forward %s, backward %s, one all-reduce of everything %s; none of these beats %s\n",
        x->topo, tutti_format_us(i.forward_us, a, sizeof a),
        tutti_format_us(i.backward_us, b, sizeof b), tutti_format_us(i.comm_us, c, sizeof c),
        tutti_format_us(limit_us, d, sizeof d));
    printf("  %-14s %11s %11s %11s %8s\n", "policy", "step", "exposed", "its ideal", "x limit");
    for (size_t k = 0; k < x->n; k++) {
        print_policy(x->sims[k], cli_train_sim_best(x), limit_us);
        if (x->buckets)
            print_buckets(x->sims[k]);
        print_log(x->sims[k]);
    }
}

/* ---- lists ---- */

void cli_train_sim_list_text(void)
{
    struct tutti_model_entry m;
    struct tutti_name p;
    printf("models (--model, or a profile file):\n");
    for (size_t i = 0; tutti_model_get(i, &m); i++)
        printf("  %-17s %s; batch %u\n", m.name, m.desc, m.batch);
    printf("policies (--policy):\n");
    for (size_t i = 0; tutti_policy_get(i, &p); i++)
        printf("  %-17s %s\n", p.name, p.desc);
    printf("fusion (--fusion):\n");
    for (size_t i = 0; tutti_fusion_get(i, &p); i++)
        printf("  %-17s %s\n", p.name, p.desc);
    printf("  %-17s %s\n", "bayesian", "the threshold by Bayesian optimisation, --trials steps");
}

/* A table of names and descriptions; `get` is one of the library's table functions. */
static void json_names(struct tutti_json *j, const char *key,
                       bool (*get)(size_t, struct tutti_name *))
{
    struct tutti_name p;
    tutti_json_array(j, key);
    for (size_t i = 0; get(i, &p); i++) {
        tutti_json_object(j, NULL);
        tutti_json_string(j, "name", p.name);
        tutti_json_string(j, "desc", p.desc);
        tutti_json_end(j);
    }
    tutti_json_end(j);
}

void cli_train_sim_list_json(void)
{
    struct tutti_model_entry m;
    struct tutti_json *j = tutti_json_open(stdout);
    tutti_json_object(j, NULL);
    tutti_json_array(j, "models");
    for (size_t i = 0; tutti_model_get(i, &m); i++) {
        tutti_json_object(j, NULL);
        tutti_json_string(j, "name", m.name);
        tutti_json_string(j, "desc", m.desc);
        tutti_json_u64(j, "batch", m.batch);
        tutti_json_end(j);
    }
    tutti_json_end(j);
    json_names(j, "policies", tutti_policy_get);
    json_names(j, "fusion", tutti_fusion_get);
    tutti_json_end(j);
    tutti_json_close(j);
}

/* ---- timeline ---- */

/* A time in microseconds with six decimals: exact, since spans are in picoseconds. */
static void put_us(FILE *out, const char *key, uint64_t ps)
{
    fprintf(out, ",\"%s\":%llu.%06u", key, (unsigned long long)(ps / 1000000),
            (unsigned)(ps % 1000000));
}

/* Thread ids as write_timeline names them: 1 compute, 2 communication, 3 shard updates. */
static void put_span(FILE *out, size_t pid, const struct tutti_trainsim_span *s)
{
    fprintf(out, ",\n{\"ph\":\"X\",\"pid\":%zu,\"tid\":%d", pid, s->stream ? 2 : s->beside ? 3 : 1);
    put_us(out, "ts", s->start_ps);
    put_us(out, "dur", s->end_ps - s->start_ps);
    if (s->bucket != UINT32_MAX)
        fprintf(out, ",\"args\":{\"bucket\":%u,\"bytes\":%llu}", s->bucket,
                (unsigned long long)s->bytes);
    fprintf(out, ",\"name\":\"%s ", s->what);
    cli_put_json_text(out, s->name);
    fputs("\"}", out);
}

/* A name of a process or track. The very first event has no comma before it. */
static void put_name(FILE *out, size_t pid, int tid, const char *what, const char *name)
{
    fprintf(out,
            "%s{\"ph\":\"M\",\"pid\":%zu,\"tid\":%d,\"name\":\"%s\",\"args\":{\"name\":\"%s\"}}",
            pid == 0 && tid == 0 ? "\n" : ",\n", pid, tid, what, name);
}

void cli_train_sim_write_timeline(const struct train_sim_answer *x, FILE *out)
{
    fputs("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[", out);
    for (size_t k = 0; k < x->n; k++) {
        struct tutti_trainsim_info i;
        struct tutti_trainsim_span s;
        tutti_trainsim_info(x->sims[k], &i);
        put_name(out, k, 0, "process_name", i.policy);
        put_name(out, k, 1, "thread_name", "compute");
        put_name(out, k, 2, "thread_name", "communication");
        put_name(out, k, 3, "thread_name", "shard updates");
        for (size_t n = 0; tutti_trainsim_span(x->sims[k], n, &s); n++)
            put_span(out, k, &s);
    }
    fputs("\n]}\n", out);
}
