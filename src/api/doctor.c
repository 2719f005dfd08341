/* doctor.c - the public side of tutti doctor over boot, transport and comm: the identity of this
 * process, what works on this host, which ranks reach each other, and the measured speeds. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>

#include "api/api.h"
#include "probe/survey.h"

/* Copies field by field: tool.h does not include the headers of the modules. */
static void host_out(const struct tt_host *h, struct tutti_host *ret)
{
    *ret = (struct tutti_host){.cores = h->cores,
                               .online = h->online,
                               .memory_bytes = h->memory_bytes,
                               .available_bytes = h->available_bytes};
    memcpy(ret->name, h->name, sizeof ret->name);
    memcpy(ret->kernel, h->kernel, sizeof ret->kernel);
    memcpy(ret->isa, h->isa, sizeof ret->isa);
}

/* Fails when variables contradict each other; `origin` is static. */
tutti_status tutti_identity(struct tutti_identity *ret, struct tutti_error *err)
{
    struct tt_boot_config c;
    const char *origin;
    tutti_status st = api_given(err, "ret", ret);
    if (!st)
        st = tt_boot_from_env(&c, &origin, err);
    if (st)
        return st;
    *ret = (struct tutti_identity){
        .rank = c.rank, .ranks = c.size, .local_rank = c.local_rank, .origin = origin};
    memcpy(ret->rendezvous, c.rendezvous, sizeof ret->rendezvous);
    return TUTTI_OK;
}

void tutti_host(struct tutti_host *ret)
{
    struct tt_host h;
    api_must("ret", ret);
    tt_probe_host_look(&h);
    host_out(&h, ret);
}

bool tutti_host_check(const char *transport, size_t i, struct tutti_check *ret)
{
    struct tt_comm_config c;
    struct tt_check k;
    api_must("ret", ret);
    /* Wrong variables are reported by tutti_identity; the checks run with defaults then */
    if (tt_comm_from_env(&c, NULL))
        c = (struct tt_comm_config){.boot = {.size = 1, .local_rank = -1}};
    c.transport = transport ? transport : c.transport;
    if (!tt_probe_host_check(&c, i, &k))
        return false;
    *ret = (struct tutti_check){.name = k.name, .ok = k.ok, .needed = k.needed};
    memcpy(ret->text, k.text, sizeof ret->text);
    return true;
}

/* ---- the survey ---- */

/* Collective among the ranks that the environment describes; no communicator is needed. */
tutti_status tutti_survey_make(const char *transport, struct tutti_survey **ret,
                               struct tutti_error *err)
{
    struct tt_comm_config c;
    struct tt_survey *s = NULL;
    tutti_status st = api_given(err, "ret", ret);
    if (!st)
        st = tt_comm_from_env(&c, err);
    if (st)
        return st;
    c.transport = transport ? transport : c.transport;
    st = tt_probe_survey_make(&c, &s, err);
    void *handle = st ? NULL : tt_api_make(API_SURVEY, s, NULL, err);
    if (!handle) {
        tt_probe_survey_free(s);
        return st ? st : TUTTI_ERR_LIMIT;
    }
    *ret = handle;
    return TUTTI_OK;
}

uint32_t tutti_survey_ranks(const struct tutti_survey *s, uint32_t *ret_mine)
{
    const struct tt_survey *survey = api_need(SURVEY, s);
    if (ret_mine)
        *ret_mine = survey->rank;
    return survey->ranks;
}

/* The number of the rank's host; hosts are numbered in the order of their first ranks. `first ==
 * r` counts each host once, at its first rank. */
static uint32_t host_number(const struct tt_survey *s, uint32_t rank)
{
    uint32_t number = 0;
    for (uint32_t r = 0; r <= rank; r++) {
        uint32_t first = 0;
        while (s->at[first].peer.host_id != s->at[r].peer.host_id)
            first++;
        if (s->at[r].peer.host_id == s->at[rank].peer.host_id)
            return number;
        number += first == r;
    }
    return number;
}

void tutti_survey_rank(const struct tutti_survey *s, uint32_t rank, struct tutti_survey_rank *ret)
{
    const struct tt_survey *survey = api_need(SURVEY, s);
    char ip[INET_ADDRSTRLEN] = "";
    api_must("ret", ret);
    if (rank >= survey->ranks)
        tt_api_stop(__func__, "there is no rank %u", rank);
    const struct tt_survey_rank *r = &survey->at[rank];
    *ret = (struct tutti_survey_rank){
        .pid = r->peer.pid, .failed = r->failed, .host_number = host_number(survey, rank)};
    host_out(&r->host, &ret->host);
    /* The name that the rank told the others when they met. */
    memcpy(ret->host.name, r->peer.host, sizeof ret->host.name);
    inet_ntop(AF_INET, &r->peer.addr_be, ip, sizeof ip);
    snprintf(ret->address, sizeof ret->address, "%s:%u", ip, r->peer.port);
}

int tutti_survey_reach(const struct tutti_survey *s, uint32_t from, uint32_t to,
                       const char **ret_transport)
{
    const struct tt_survey *survey = api_need(SURVEY, s);
    if (from >= survey->ranks || to >= survey->ranks)
        tt_api_stop(__func__, "there is no rank %u", from >= survey->ranks ? from : to);
    if (ret_transport)
        *ret_transport = tt_probe_survey_transport(survey, from, to);
    return survey->reach[(size_t)from * survey->ranks + to];
}

void tutti_survey_free(struct tutti_survey *s)
{
    tt_probe_survey_free(api_end(SURVEY, s));
}

/* ---- speeds ---- */

tutti_status tutti_comm_speeds(struct tutti_comm *comm, bool again, struct tutti_speeds *ret,
                               struct tutti_error *err)
{
    struct tt_speeds s;
    struct tt_comm *c = api_find(COMM, comm, err);
    tutti_status st = c ? api_given(err, "ret", ret) : TUTTI_ERR_ARG;
    if (!st)
        st = tt_comm_speeds(c, again, &s, err);
    if (st)
        return st;
    struct tutti_speeds out = {.gamma_ns_per_byte = (double)s.gamma_fs / 1e6,
                               .taken = (double)s.taken / 1000};
    /* Measured on busy cores, speeds are not to be relied on. */
    out.steady = s.taken <= TT_TAKEN_MOST;
    out.shm.known = s.shm.bw > 0;
    out.shm.bytes_per_s = (double)s.shm.bw;
    out.shm.latency_us = tt_api_us(s.shm.latency_ps);
    out.shm.overhead_us = tt_api_us(s.shm.overhead_ps);
    out.tcp.known = s.tcp.bw > 0;
    out.tcp.bytes_per_s = (double)s.tcp.bw;
    out.tcp.latency_us = tt_api_us(s.tcp.latency_ps);
    out.tcp.overhead_us = tt_api_us(s.tcp.overhead_ps);
    *ret = out;
    return TUTTI_OK;
}

void tutti_comm_guard(const struct tutti_comm *comm, char *buf, size_t cap)
{
    api_must("buf", buf);
    tt_comm_guard(api_need(COMM, comm), buf, cap);
}

char *tutti_speeds_path(char *buf, size_t cap)
{
    api_must("buf", buf);
    if (!tt_meter_speeds_path(buf, cap) && cap)
        buf[0] = '\0';
    return buf;
}
