/* args.c - command lines: options by table, usage texts from the same table.
 *
 *     tutti bench -n 4 --algo=ring --check     --name VALUE, --name=VALUE, -x VALUE, flags
 *     tutti run -n 4 -- prog --help            "--" ends the options; what follows is not ours
 *
 * A word that begins with "-" and has more characters is an option; "-" alone is a word (standard
 * input or output). Short options are never joined (-nf is refused). Nothing is copied: values and
 * words point into argv, which outlives the command. Complaints go to standard error, and the
 * functions return false after them. */
#include "cli/cli.h"

#include <stdio.h>
#include <string.h>

enum { WIDTH = 100, HELP = 31 }; /* columns of help: in all, and where options are explained */

/* The i-th option of the command over all its lists, NULL past the end. */
static const struct cli_option *option_at(const struct cli_command *c, size_t i)
{
    for (const struct cli_option *const *list = c->options; list && *list; list++)
        for (const struct cli_option *o = *list; o->name; o++)
            if (i-- == 0)
                return o;
    return NULL;
}

/* `name` is not terminated: it may be followed by "=VALUE". */
static const struct cli_option *option_named(const struct cli_command *c, const char *name,
                                             size_t len)
{
    const struct cli_option *o;
    for (size_t i = 0; (o = option_at(c, i)); i++)
        if (strlen(o->name) == len && !strncmp(o->name, name, len))
            return o;
    return NULL;
}

/* Options without a short form have letter 0, which no word can name. */
static const struct cli_option *option_lettered(const struct cli_command *c, char letter)
{
    const struct cli_option *o;
    for (size_t i = 0; (o = option_at(c, i)); i++)
        if (o->letter && o->letter == letter)
            return o;
    return NULL;
}

/* Prints the complaint about an unknown option, with names that are close to it. Returns false,
 * so that callers can return its result. */
static bool complain_unknown(const struct cli_command *c, const char *word)
{
    const char *names[CLI_MAX_VALUES];
    size_t n = 0;
    const struct cli_option *o;
    while (n < CLI_MAX_VALUES && (o = option_at(c, n)))
        names[n++] = o->name;
    char near[160], name[64];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(word + strspn(word, "-"), "="),
             word + strspn(word, "-"));
    tutti_near_matches(name, names, n, near, sizeof near);
    fprintf(stderr, "tutti %s: no option %s%s%s; see tutti %s --help\n", c->name, word,
            *near ? "; " : "", near, c->name);
    return false;
}

/* The option that a word names, or NULL when the command has none of that name. The word has at
 * least two characters. */
static const struct cli_option *option_of(const struct cli_command *c, const char *word)
{
    if (word[1] == '-')
        return option_named(c, word + 2, strcspn(word + 2, "="));
    return word[2] ? NULL : option_lettered(c, word[1]);
}

/* Takes the option at argv[*i]; *i is left at its last word. */
static bool take_option(int argc, char **argv, int *i, struct cli_args *a)
{
    const char *word = argv[*i];
    bool is_long = word[1] == '-';
    /* "=" separates a value only in long options: -x=5 is no form that we offer. */
    const char *eq = is_long ? strchr(word, '=') : NULL;
    const struct cli_option *o = option_of(a->command, word);
    if (!o)
        return complain_unknown(a->command, word);
    const char *value = eq ? eq + 1 : "";
    if (!o->arg && eq) {
        fprintf(stderr, "tutti %s: --%s takes no value\n", a->command->name, o->name);
        return false;
    }
    if (o->arg && !eq) {
        if (*i + 1 >= argc) {
            fprintf(stderr, "tutti %s: --%s needs a value (%s)\n", a->command->name, o->name,
                    o->arg);
            return false;
        }
        value = argv[++*i];
    }
    /* An option may be repeated, so that even a valid command line can fill the table. */
    if (a->nvalues == CLI_MAX_VALUES) {
        fprintf(stderr, "tutti %s: more than %d options\n", a->command->name, CLI_MAX_VALUES);
        return false;
    }
    a->values[a->nvalues].option = o;
    a->values[a->nvalues++].value = value;
    return true;
}

bool cli_asks_help(const struct cli_command *c, int argc, char **argv)
{
    for (int i = 0; i < argc && strcmp(argv[i], "--"); i++) {
        if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h"))
            return true;
        /* Without a program all words up to "--" are ours, and --help is found wherever it
         * stands. */
        if (!c->takes_program)
            continue;
        /* The first plain word is the program: a --help after it is for the program. */
        if (argv[i][0] != '-' || !argv[i][1])
            return false;
        const struct cli_option *o = option_of(c, argv[i]);
        /* Skip the option's value: it could look like a word, and would end the search. */
        i += o && o->arg && !strchr(argv[i], '=');
    }
    return false;
}

/* The rest of the command line, which the command hands to a program. argv ends with NULL, so
 * that an empty rest is a NULL pointer at *rest. */
static bool take_program(char **rest, struct cli_args *a)
{
    if (*rest) {
        a->program = rest;
        return true;
    }
    fprintf(stderr, "tutti %s: no program given; usage: tutti %s\n", a->command->name,
            a->command->synopsis);
    return false;
}

bool cli_parse(const struct cli_command *c, int argc, char **argv, struct cli_args *ret)
{
    /* Invariant: the words before argv[i] are stored in *ret, each either as an option or as a
     * word. */
    *ret = (struct cli_args){.command = c};
    bool only_words = false;
    for (int i = 0; i < argc; i++) {
        if (!only_words && !strcmp(argv[i], "--")) {
            if (c->takes_program)
                return take_program(argv + i + 1, ret);
            only_words = true;
            continue;
        }
        if (!only_words && argv[i][0] == '-' && argv[i][1]) {
            if (!take_option(argc, argv, &i, ret))
                return false;
            continue;
        }
        if (c->takes_program)
            return take_program(argv + i, ret);
        /* A limit of the command, or of the table. */
        if (ret->nwords == c->max_words || ret->nwords == CLI_MAX_WORDS) {
            fprintf(stderr, "tutti %s: unexpected word '%s'; see tutti %s --help\n", c->name,
                    argv[i], c->name);
            return false;
        }
        ret->words[ret->nwords++] = argv[i];
    }
    /* argv + argc is the NULL at the end: take_program complains that there is no program. */
    if (c->takes_program)
        return take_program(argv + argc, ret);
    if (ret->nwords < c->min_words) {
        fprintf(stderr, "usage: tutti %s\n", c->synopsis);
        return false;
    }
    return true;
}

const char *cli_value(const struct cli_args *a, const char *name)
{
    /* Backwards: the last one given counts. */
    for (size_t i = a->nvalues; i-- > 0;)
        if (!strcmp(a->values[i].option->name, name))
            return a->values[i].value;
    return NULL;
}

/* A flag is stored with the value "", so that it is found like any other option. */
bool cli_flag(const struct cli_args *a, const char *name)
{
    return cli_value(a, name) != NULL;
}

void cli_put_wrapped(FILE *out, const char *text, size_t at, size_t indent)
{
    bool first = true; /* of its line */
    for (text += strspn(text, " \n"); *text;) {
        size_t n = strcspn(text, " \n"), blank = strspn(text + n, " \n");
        if (!first && at + 1 + n > WIDTH) {
            fprintf(out, "\n%*s", (int)indent, "");
            at = indent;
            first = true;
        }
        fprintf(out, "%s%.*s", first ? "" : " ", (int)n, text);
        at += n + !first;
        first = false;
        text += n;
        if (blank >= 2 && !strncmp(text, "\n\n", 2) && text[blank]) {
            fprintf(out, "\n\n%*s", (int)indent, "");
            at = indent;
            first = true;
        }
        text += blank;
    }
    fputc('\n', out);
}

/* An option: its name and argument, then what it does, at column HELP; below them if they do not
 * leave a blank before it. */
static void put_option(FILE *out, const char *left, const char *help)
{
    fprintf(out, "  %-*s ", HELP - 3, left);
    if (strlen(left) > HELP - 3)
        fprintf(out, "\n%*s", HELP, "");
    cli_put_wrapped(out, help, HELP, HELP);
}

/* All of it comes from the command's table: synopsis, summary, details, options, examples. */
void cli_help(const struct cli_command *c, FILE *out)
{
    static const char usage[] = "usage: tutti ";
    fputs(usage, out);
    cli_put_wrapped(out, c->synopsis, sizeof usage - 1, sizeof usage - 1);
    fprintf(out, "\n%s\n", c->summary);
    if (c->details) {
        fputc('\n', out);
        cli_put_wrapped(out, c->details, 0, 0);
    }
    fprintf(out, "\noptions:\n");
    const struct cli_option *o;
    for (size_t i = 0; (o = option_at(c, i)); i++) {
        /* The letter's column is kept free for options that have none. */
        char left[64];
        snprintf(left, sizeof left, "%s%c%s--%s%s%s", o->letter ? "-" : "",
                 o->letter ? o->letter : ' ', o->letter ? ", " : "   ", o->name, o->arg ? " " : "",
                 o->arg ? o->arg : "");
        put_option(out, left, o->help);
    }
    put_option(out, "-h, --help", "this text");
    fprintf(out, "\nexamples:\n");
    /* Examples are separated by newlines; the second step skips the newline unless it was the
     * end. */
    for (const char *e = c->examples; e && *e; e += strcspn(e, "\n"), e += *e == '\n')
        fprintf(out, "  %.*s\n", (int)strcspn(e, "\n"), e);
}

void cli_usage(FILE *out, const struct cli_command *const *all, size_t n)
{
    fprintf(out,
            "tutti %s: plans, proves and prices collectives on a network\n\nusage: tutti COMMAND "
            "[options]\n\n",
            tutti_version());
    for (size_t i = 0; i < n; i++)
        fprintf(out, "  %-9s %s\n", all[i]->name, all[i]->summary);
    fprintf(out, "\ntutti COMMAND --help explains a command and gives an example.\n"
                 "Exit status: 0 success, 1 a negative answer (not correct, refused), 2 usage or "
                 "bad input.\n");
}
