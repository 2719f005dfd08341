/* sim.h - what the files of tutti sim share: the request, the answer, and its reports.
 *
 *     cmd_sim.c: the order of work
 *         |--> sim_options.c: the request
 *         |--> sim_report.c: the answer as text or JSON
 *         '--> sim_files.c: --timeline and --links */
#ifndef CLI_SIM_H
#define CLI_SIM_H

#include "cli/cli.h"
#include "cli/output.h"
#include "cli/whatif.h"

/* Bits, so that an option can go with several levels. */
enum sim_level { SIM_STEP = 1, SIM_FLOW = 2, SIM_PACKET = 4 };

/* The command line, except network, problem and plan. Pointers in `o` point into `whatif`, so
 * that the struct must not be copied. */
struct sim_request {
    enum sim_level level;
    struct tutti_sim_options o;
    struct cli_whatif whatif;
};

/* A simulation and what it is compared with. */
struct sim_answer {
    const struct sim_request *q;
    const struct tutti_topo *t;
    const struct tutti_sim *sim;
    const char *algo;
    double bound_us, wall_s; /* bound_us: NaN when there is none to state */
};

/* sim_options.c */
extern const struct cli_option cli_sim_options[];
/* These return 0 or the exit code after a complaint. cli_sim_level_get parses --level and
 * refuses options that do not go with it. */
int cli_sim_level_get(const struct cli_args *a, enum sim_level *ret);
int cli_sim_request_get(const struct cli_args *a, const struct tutti_topo *t, enum sim_level level,
                        struct sim_request *ret);
void cli_sim_request_free(struct sim_request *q); /* accepts zeroed ones */
const char *cli_sim_level_name(enum sim_level level);

/* sim_report.c */
/* Which level is nearest to such a network: as a line, or as fields of an open JSON object. */
void cli_sim_say_believed(const struct tutti_topo *t, enum sim_level level);
void cli_sim_json_believed(struct tutti_json *j, const struct tutti_topo *t);
void cli_sim_print_json(const struct sim_answer *x);
void cli_sim_print_text(const struct sim_answer *x);

/* sim_files.c: write_timeline returns false when memory ran out; write errors show in the
 * stream. */
bool cli_sim_write_timeline(const struct sim_answer *x, FILE *out);
void cli_sim_write_links(const struct sim_answer *x, FILE *out);
#endif
