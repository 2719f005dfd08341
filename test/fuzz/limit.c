/* limit.c - what libFuzzer calls in every fuzzer: hands the input on to fuzz_one (what the fuzzer's
 * file defines, renamed when it is compiled) and ends one that takes too long.
 *
 * libFuzzer's own -timeout counts by the clock on the wall, so that a machine that stands still or
 * is busy with something else looks like an endless loop. Here the process's own CPU time counts: an
 * input that has used between CPU_SECONDS and twice that is aborted, and libFuzzer keeps it. Waits
 * that never end use no CPU: those are left to -timeout. */
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/time.h>
#include <unistd.h>

enum { CPU_SECONDS = 10 };

int fuzz_one(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static volatile sig_atomic_t running, before; /* number of the input under way, 0 for none */
static sig_atomic_t inputs;

static void tick(int sig)
{
    (void)sig;
    if (running && running == before) {
        static const char text[] = "limit: one input took more than 10 s of CPU time\n";
        (void)!write(STDERR_FILENO, text, sizeof text - 1);
        abort();
    }
    before = running;
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    const struct itimerval every = {{CPU_SECONDS, 0}, {CPU_SECONDS, 0}};
    (void)argc;
    (void)argv;
    return signal(SIGPROF, tick) == SIG_ERR || setitimer(ITIMER_PROF, &every, NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    inputs = inputs < SIG_ATOMIC_MAX ? inputs + 1 : 1;
    running = inputs;
    int answer = fuzz_one(data, size);
    running = 0;
    return answer;
}
