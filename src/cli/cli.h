/* cli.h - the parts of a command of the tool: its table of options, the parsed command line, and
 * how answers are given. Usage texts are generated from the tables. The table of the commands is
 * in tool/main.c, so that commands may live in several modules. */
#ifndef CLI_H
#define CLI_H

#include <stdbool.h>
#include <stdint.h>
#include <tutti/tutti.h>

#include "api/tool.h"

/* Exit codes of every command: success; a negative answer (not correct, refused); bad usage or
 * input. */
enum { CLI_OK = 0, CLI_NO = 1, CLI_USAGE = 2 };

/* An option of a command. A list of them ends with an entry whose name is NULL. */
struct cli_option {
    const char *name; /* long name without dashes */
    char letter;      /* short form, 0: none */
    const char *arg;  /* NULL: a flag */
    const char *help;
};

/* Limits of the tables below. CLI_MAX_RANKS is the most ranks that a command starts on one
 * machine. */
enum { CLI_MAX_VALUES = 48, CLI_MAX_WORDS = 16, CLI_MAX_RANKS = 4096 };

/* A parsed command line. Values, words and program point into argv. */
struct cli_args {
    const struct cli_command *command;
    struct {
        const struct cli_option *option;
        const char *value; /* "" for a flag */
    } values[CLI_MAX_VALUES];
    size_t nvalues;
    const char *words[CLI_MAX_WORDS];
    size_t nwords;
    char **program; /* for takes_program: the program with its arguments, ended by NULL */
};

/* A command. All strings are static; `run` returns an exit code and has printed its complaint. */
struct cli_command {
    const char *name, *synopsis, *summary;
    const char *details;  /* further help, may be NULL */
    const char *examples; /* one per line */
    /* lists of options, each ended by an entry with name NULL; the array itself is ended by NULL */
    const struct cli_option *const *options;
    /* plain words that the command takes */
    size_t min_words, max_words;
    /* everything from the first plain word on, or after "--", is a program with its arguments */
    bool takes_program;
    /* its ranks open communicators: then the library warns about unknown variables, not the tool */
    bool opens_comm;
    int (*run)(const struct cli_args *a);
};

/* args.c */
/* False after a complaint on standard error. */
bool cli_parse(const struct cli_command *c, int argc, char **argv, struct cli_args *ret);
/* The value of the option; the last one when it was given several times; NULL when not given. */
const char *cli_value(const struct cli_args *a, const char *name);
bool cli_flag(const struct cli_args *a, const char *name);
/* Is --help or -h given before "--" and before a program? */
bool cli_asks_help(const struct cli_command *c, int argc, char **argv);
/* The usage text of one command, and the list of all commands. */
void cli_help(const struct cli_command *c, FILE *out);
void cli_usage(FILE *out, const struct cli_command *const *commands, size_t n);
/* Prints text in lines of at most 100 columns, the first of which begins at column `at`, the others
 * at `indent`. A line end in the text is a blank, two are the end of a paragraph. */
void cli_put_wrapped(FILE *out, const char *text, size_t at, size_t indent);

/* common.c: options several commands share, and how answers are given */
extern const struct cli_option cli_size_options[];   /* --size */
extern const struct cli_option cli_coll_options[];   /* --coll --dtype --op --root */
extern const struct cli_option cli_topo_options[];   /* --topo */
extern const struct cli_option cli_algo_options[];   /* --algo --option */
extern const struct cli_option cli_choice_options[]; /* --reproducible --budget --tuning */
extern const struct cli_option cli_json_options[];   /* --json */

/* Prints "tutti COMMAND: text" and returns the exit code for err->status: CLI_NO for refusals
 * and negative answers, else CLI_USAGE. */
int cli_fail(const struct cli_args *a, const struct tutti_error *err);
/* The same for bad input: always returns CLI_USAGE. */
int cli_bad(const struct cli_args *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* The collective that a command line describes. o.options points to `options`: do not copy the
 * struct after it was filled. */
struct cli_problem {
    struct tutti_plan_options o; /* algo, options, coll, ... filled from the command line */
    uint64_t bytes;
    char options[512];
};
/* These return 0, or the exit code after a complaint was printed. The caller frees *ret of
 * cli_get_topo and cli_parse_topo, which also note cables that lead nowhere on standard error.
 * --size is needed unless the collective is a barrier. */
int cli_parse_topo(const struct cli_args *a, const char *spec, struct tutti_topo **ret);
int cli_get_topo(const struct cli_args *a, struct tutti_topo **ret);
int cli_get_problem(const struct cli_args *a, struct cli_problem *ret);
int cli_get_choice(const struct cli_args *a, struct cli_problem *ret); /* everything but the size */
/* Parses "MIN..MAX", two sizes of at least 1 byte, given as the value of `option`. */
int cli_get_range(const struct cli_args *a, const char *option, const char *text, uint64_t *ret_min,
                  uint64_t *ret_max);
/* The number of elements of a vector of `bytes`; complains when it is not whole. */
int cli_get_count(const struct cli_args *a, uint64_t bytes, tutti_dtype dtype, uint64_t *ret);

/* Prints a line when auto could not price all candidates within the budget (0: the default): it
 * names them and a larger budget. */
void cli_say_skipped(const struct tutti_plan *p, uint64_t budget_ms);

/* cmd_verify.c: proves the schedule. Returns 0, or the exit code after "not correct: ..." (as
 * text or JSON) or a complaint was printed. */
int cli_prove(const struct cli_args *a, const struct tutti_schedule *s, struct tutti_verdict *ret);

/* A progress line on standard error when it is a terminal and the work takes more than a second. */
struct cli_progress {
    const char *what;
    uint64_t start_ns, last_ns;
    bool shown;
};
/* show is called with the fraction done, as often as the work likes; end removes the line. */
void cli_progress_begin(struct cli_progress *p, const char *what);
void cli_progress_show(void *progress, double fraction);
void cli_progress_end(struct cli_progress *p);
/* Writes "about 12 s left" (or min, or h) to buf, assuming that the rest goes as fast as before. */
const char *cli_time_left(double elapsed_s, double fraction, char *buf, size_t cap);

/* waiting.c: a progress line for work that reports its progress rarely or not at all: the
 * seconds so far, and after wait_done an estimate of the rest. One at a time; do not print
 * between begin and end. */
void cli_wait_begin(const char *what);
void cli_wait_done(double fraction);
void cli_wait_end(void);
/* tutti_plan_make with such a progress line. */
tutti_status cli_plan_make(const struct tutti_topo *t, const struct tutti_plan_options *o,
                           struct tutti_plan **ret, struct tutti_error *err);

/* environment.c: warns about unknown TUTTI_* variables; known ones give defaults for options. */
void cli_check_environment(const struct cli_command *c);
const char *cli_environment(const char *name); /* NULL when unset or empty */

/* self.c: is this process a rank of a job, by any launcher's variables? */
bool cli_in_job(void);
/* True when this rank should print its complaint; false when another rank of the job has printed
 * the same text. */
bool cli_speaks(const char *text);
/* Collective. Sets *ret to false on all ranks when rank 0's standard output has no reader any
 * more; all ranks should then end. */
tutti_status cli_ranks_go_on(struct tutti_comm *comm, bool *ret);
/* Replaces this process by tutti run, which starts the same command with the same options as
 * `--ranks` ranks on this machine (dflt: when not given). Returns only when that fails: the exit
 * code after the complaint. */
int cli_start_ranks(const struct cli_args *a, const char *dflt);

/* memory.c: from now on, allocating more than the host has available fails, so that the command
 * can report it instead of being killed. */
void cli_limit_memory(void);

/* "" for one, "s" for other numbers. */
static inline const char *cli_s(uint64_t n)
{
    return n == 1 ? "" : "s";
}

/* Is standard output a pipe whose reader has ended (as head does)? That is no error. For
 * commands that ignore SIGPIPE. */
bool cli_reader_gone(void);
/* Checks that everything could be written to standard output; returns `code`, or CLI_USAGE after
 * a complaint. */
int cli_finish(int code);

/* One file each: cmd_<name>.c. */
extern const struct cli_command cli_topo, cli_algos, cli_plan, cli_verify, cli_bound, cli_explain,
    cli_compare, cli_sim, cli_bench, cli_doctor, cli_train_sim, cli_replay, cli_probe, cli_export,
    cli_view, cli_top;
#endif
