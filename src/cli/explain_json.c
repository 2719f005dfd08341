/* explain_json.c - tutti explain --json: winner, bound, candidates, refusals, envelope, and what a
 * what-if is compared with. */
#include <math.h>
#include <string.h>

#include "cli/explain.h"

bool cli_explain_find_stay(const struct explained *x, struct tutti_candidate *ret)
{
    for (size_t i = 0; !tutti_plan_explain(x->p, i, ret, NULL); i++)
        if (!strcmp(ret->algo, tutti_plan_algo(x->before)))
            return true;
    return false;
}

/* Its time after the change; NaN when it is refused or was not priced. */
static double stay_us(const struct explained *x)
{
    struct tutti_candidate c;
    return cli_explain_find_stay(x, &c) && !c.refused && !c.skipped ? c.predicted_us : (double)NAN;
}

/* The plan of the network as described, and what its winner would take after the change. */
static void json_before(struct tutti_json *j, const struct explained *x)
{
    struct tutti_candidate stay;
    tutti_json_object(j, "as_described");
    tutti_json_string(j, "winner", tutti_plan_algo(x->before));
    tutti_json_real(j, "predicted_us", tutti_plan_predicted_us(x->before));
    tutti_json_real(j, "bound_us", tutti_plan_bound_us(x->before));
    tutti_json_real(j, "winner_after_us", stay_us(x));
    if (cli_explain_find_stay(x, &stay) && (stay.refused || stay.skipped))
        tutti_json_string(j, "winner_after_why", stay.why);
    tutti_json_end(j);
}

/* All candidates in table order; without a price the numbers are null and `why` has the reason. */
static void json_candidates(struct tutti_json *j, const struct tutti_plan *p)
{
    struct tutti_candidate c;
    tutti_json_array(j, "candidates");
    for (size_t i = 0; !tutti_plan_explain(p, i, &c, NULL); i++) {
        bool priced = !c.refused && !c.skipped;
        tutti_json_object(j, NULL);
        tutti_json_string(j, "algo", c.algo);
        tutti_json_bool(j, "refused", c.refused);
        tutti_json_bool(j, "skipped", c.skipped);
        if (priced) {
            tutti_json_real(j, "predicted_us", c.predicted_us);
            if (tutti_plan_flow_us(p, i) > 0)
                tutti_json_real(j, "flow_us", tutti_plan_flow_us(p, i));
            else
                tutti_json_null(j, "flow_us");
            tutti_json_real(j, "ratio_to_bound", c.ratio_to_bound);
            tutti_json_u64(j, "segments", c.segments);
            tutti_json_u64(j, "steps", c.steps);
        } else {
            tutti_json_null(j, "predicted_us");
            tutti_json_null(j, "flow_us");
            tutti_json_null(j, "ratio_to_bound");
        }
        tutti_json_string(j, "why", c.why);
        tutti_json_end(j);
    }
    tutti_json_end(j);
}

/* The winners by size: ranges with their algorithm and the times at both ends. */
static void json_envelope(struct tutti_json *j, const struct tutti_envelope_piece *e, size_t n)
{
    tutti_json_array(j, "envelope");
    for (size_t i = 0; i < n; i++) {
        tutti_json_object(j, NULL);
        tutti_json_u64(j, "from_bytes", e[i].from_bytes);
        tutti_json_u64(j, "to_bytes", e[i].to_bytes);
        tutti_json_string(j, "algo", e[i].algo);
        tutti_json_real(j, "from_us", e[i].from_us);
        tutti_json_real(j, "to_us", e[i].to_us);
        tutti_json_end(j);
    }
    tutti_json_end(j);
}

/* What decided: a rule of the tuning file, times at flow level, or step times alone. */
static const char *chosen_by(const struct tutti_plan *p)
{
    struct tutti_plan_info i;
    tutti_plan_info(p, NULL, &i);
    return i.from_tuning ? "tuning" : tutti_plan_flow_us(p, SIZE_MAX) > 0 ? "flow" : "step";
}

void cli_explain_json(const struct explained *x)
{
    struct tutti_plan_info i;
    struct tutti_json *j = tutti_json_open(stdout);
    tutti_plan_info(x->p, NULL, &i);
    tutti_json_object(j, NULL);
    tutti_json_string(j, "winner", i.algo);
    tutti_json_real(j, "predicted_us", i.predicted_us);
    tutti_json_string(j, "chosen_by", chosen_by(x->p));
    if (tutti_plan_flow_us(x->p, SIZE_MAX) > 0)
        tutti_json_real(j, "flow_us", tutti_plan_flow_us(x->p, SIZE_MAX));
    else
        tutti_json_null(j, "flow_us");
    tutti_json_real(j, "bound_us", i.bound_us);
    tutti_json_string(j, "bound_kind", i.bound_kind);
    tutti_json_string(j, "certificate", i.certificate);
    tutti_json_bool(j, "from_tuning", i.from_tuning);
    if (x->before)
        json_before(j, x);
    json_candidates(j, x->p);
    if (x->envelope)
        json_envelope(j, x->envelope, x->npieces);
    tutti_json_end(j);
    tutti_json_close(j);
}
