/* doctor.h - what tutti doctor found; shared by its two files. */
#ifndef CLI_DOCTOR_H
#define CLI_DOCTOR_H

#include "cli/cli.h"

enum { DOCTOR_CHECKS = 32, DOCTOR_PROBLEMS = 16 };

struct doctor {
    const char *transport; /* --transport, or NULL */
    struct tutti_identity me;
    struct tutti_host host;
    struct tutti_check checks[DOCTOR_CHECKS];
    size_t nchecks;
    struct tutti_survey *survey; /* NULL: not in a job, or the ranks could not meet */
    bool connected;              /* everybody reaches everybody */
    bool measured;
    struct tutti_speeds speeds;
    char guard[64];                      /* of the sockets */
    char problems[DOCTOR_PROBLEMS][600]; /* what needs to work and does not */
    size_t nproblems;
};

void cli_doctor_problem(struct doctor *d, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* doctor_job.c */
void cli_doctor_job(struct doctor *d); /* collective; looks */
void cli_doctor_job_print(const struct doctor *d);
void cli_doctor_job_json(const struct doctor *d, struct tutti_json *j);
#endif
