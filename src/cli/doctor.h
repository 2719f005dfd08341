/* doctor.h - the findings of tutti doctor, shared by its two files: cmd_doctor.c (this host) and
 * doctor_job.c (the job). */
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
    bool connected;              /* every rank reaches every other, and needed checks hold */
    bool measured;
    /* valid when `measured` */
    struct tutti_speeds speeds;
    char guard[64];                      /* how sockets are protected, in words */
    char problems[DOCTOR_PROBLEMS][600]; /* sentences about what is needed and does not work */
    size_t nproblems;
};

/* Adds a sentence to the problems; the exit status is 1 when there are any. */
void cli_doctor_problem(struct doctor *d, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* doctor_job.c */
void cli_doctor_job(struct doctor *d); /* collective; looks, prints nothing */
void cli_doctor_job_print(const struct doctor *d);
void cli_doctor_job_json(const struct doctor *d, struct tutti_json *j);
#endif
