/*
 * starts ROUNDS PROGRAM...: the size of each program, and the time from posix_spawn until it has
 * ended, least and median of the rounds. The programs take turns. Each must end with status 0; what
 * it prints goes to /dev/null.
 */
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

#define MOST_ROUNDS 1000
#define MOST_PROGRAMS 16

static double microseconds[MOST_PROGRAMS][MOST_ROUNDS];

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e6 + (double)time.tv_nsec / 1e3;
}

/* Whether it has started and ended well. */
static int run(const char *program, const posix_spawn_file_actions_t *actions, double *time) {
    char *arguments[] = {(char *)program, NULL};
    pid_t process;
    int status;
    double start = now();
    int error = posix_spawn(&process, program, actions, NULL, arguments, environ);
    if (error != 0) {
        printf("%s: %s\n", program, strerror(error));
        return 0;
    }
    if (waitpid(process, &status, 0) != process || status != 0) {
        printf("%s: it ended with status %#x\n", program, (unsigned)status);
        return 0;
    }
    *time = now() - start;
    return 1;
}

static int compare(const void *left, const void *right) {
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

int main(int count, char **arguments) {
    int rounds = count > 2 ? atoi(arguments[1]) : 0;
    int programs = count - 2;
    char **program = arguments + 2;
    posix_spawn_file_actions_t actions;
    if (rounds < 1 || rounds > MOST_ROUNDS || programs > MOST_PROGRAMS) {
        fprintf(stderr, "usage: starts ROUNDS PROGRAM...\n");
        return 64;
    }
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    for (int round = 0; round < rounds; round++)
        for (int index = 0; index < programs; index++)
            if (!run(program[index], &actions, &microseconds[index][round]))
                return 1;
    posix_spawn_file_actions_destroy(&actions);
    for (int index = 0; index < programs; index++) {
        struct stat file;
        if (stat(program[index], &file) != 0) {
            perror(program[index]);
            return 1;
        }
        qsort(microseconds[index], (size_t)rounds, sizeof(double), compare);
        printf("%s: %ld bytes, start to end %.0f us at least, median %.0f us\n", program[index],
               (long)file.st_size, microseconds[index][0], microseconds[index][rounds / 2]);
    }
    return 0;
}
