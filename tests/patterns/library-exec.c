/* A program that replaces itself while its other threads open, replace and close descriptors: the
   new program begins, with the descriptors that it inherits and no other. */
#include "library.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROUNDS = 60, REPLACED = 20, NUMBERS = 100, ALL_WELL = 42 };

static int source;
static volatile long replaced, opened;

/* The number has a descriptor at each moment, which the new program inherits. */
static void *replace(void *argument) {
    for (;; replaced++)
        if (dup2(source, REPLACED) != REPLACED)
            _exit(2);
    return argument;
}

static void *open_and_close(void *argument) {
    for (int ends[2];; opened++)
        if (pipe2(ends, O_CLOEXEC) != 0 || close(ends[0]) != 0 || close(ends[1]) != 0)
            _exit(3);
    return argument;
}

/* The new program: exits with the first number that should be the other way. */
static int check(void) {
    for (int number = 0; number < NUMBERS; number++) {
        int is_open = fcntl(number, F_GETFD) >= 0;
        if (is_open != (number <= STDERR_FILENO || number == REPLACED))
            return 100 + number;
    }
    return ALL_WELL;
}

static void become_another(const char *path, int round) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, round % 2 ? replace : open_and_close, NULL) != 0)
        _exit(4);
    while (replaced + opened < 10)
        sched_yield();
    /* The thread is somewhere else in its work each time. */
    for (volatile int delay = 0; delay < round * 100; delay++) {
    }
    execl(path, path, "check", (char *)NULL);
    _exit(5);
}

int main(int count, char **arguments) {
    if (count == 2 && !strcmp(arguments[1], "check"))
        return check();
    source = open("/dev/null", O_RDWR | O_CLOEXEC);
    CHECK(source >= 0 && dup2(source, REPLACED) == REPLACED);
    for (int round = 0; round < ROUNDS; round++) {
        int status = 0;
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0)
            become_another(arguments[0], round);
        CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status));
        if (WEXITSTATUS(status) != ALL_WELL)
            printf("round %d: status %d\n", round, WEXITSTATUS(status));
        CHECK(WEXITSTATUS(status) == ALL_WELL);
    }
    return finish("exec");
}
