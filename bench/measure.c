/* Runs a command and prints its wall time and peak memory: "1.23 s, 456 MiB: command". Its standard output goes to standard error. */
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "usage: bench_measure COMMAND ARGS...\n");
        return 2;
    }
    struct timespec a, b;
    clock_gettime(CLOCK_MONOTONIC, &a);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(STDERR_FILENO, STDOUT_FILENO);
        execvp(argv[1], argv + 1);
        perror(argv[1]);
        _exit(127);
    }
    int status;
    struct rusage use;
    if (pid < 0 || wait4(pid, &status, 0, &use) < 0)
        return 2;
    clock_gettime(CLOCK_MONOTONIC, &b);
    double s = (double)(b.tv_sec - a.tv_sec) + (double)(b.tv_nsec - a.tv_nsec) * 1e-9;
    printf("%8.3f s %7ld MiB %s ", s, use.ru_maxrss / 1024, WIFEXITED(status) && WEXITSTATUS(status) == 0 ? "ok    " : "FAILED");
    for (int i = 1; i < argc; i++)
        printf(" %s", argv[i]);
    printf("\n");
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
