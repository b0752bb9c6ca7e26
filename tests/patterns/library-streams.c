/* Streams beside the descriptors under them: positions, ends, failures; and transfers of parts. */
#include "library.h"

#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

/* A file with this text, open to be read and written. */
static int file_with(const char *text) {
    char path[] = "/tmp/streams-XXXXXX";
    int fd = mkstemp(path);
    CHECK(fd >= 0 && unlink(path) == 0);
    CHECK(write(fd, text, strlen(text)) == (ssize_t)strlen(text) && lseek(fd, 0, SEEK_SET) == 0);
    return fd;
}

/* Who goes on with the descriptor begins where the stream has stopped. */
static void positions(void) {
    for (int closes = 0; closes < 2; closes++) {
        int fd = file_with("one\ntwo\nthree\n"), own = dup(fd);
        char line[10];
        FILE *stream = fdopen(own, "r");
        CHECK(stream != NULL && fgets(line, sizeof line, stream) == line);
        CHECK((closes ? fclose(stream) : fflush(stream)) == 0);
        CHECK(lseek(fd, 0, SEEK_CUR) == 4);
        CHECK(read(fd, line, 4) == 4 && memcmp(line, "two\n", 4) == 0);
        if (!closes) {
            CHECK(fgets(line, sizeof line, stream) == line && strcmp(line, "three\n") == 0);
            CHECK(fclose(stream) == 0);
        }
        CHECK(close(fd) == 0);
    }
}

/* What has no positions loses nothing when a program asks for one. */
static void pipes(void) {
    int ends[2];
    char line[10];
    CHECK(pipe(ends) == 0 && write(ends[1], "one\ntwo\n", 8) == 8);
    FILE *stream = fdopen(ends[0], "r");
    CHECK(stream != NULL && fgets(line, sizeof line, stream) == line);
    FAILS(fseek(stream, 0, SEEK_SET), ESPIPE);
    FAILS(ftell(stream), ESPIPE);
    FAILS(lseek(ends[1], 0, SEEK_CUR), ESPIPE);
    CHECK(fflush(stream) == 0);
    CHECK(fgets(line, sizeof line, stream) == line && strcmp(line, "two\n") == 0);
    CHECK(fclose(stream) == 0 && close(ends[1]) == 0);
}

/* An end that was found stays until the program clears it. */
static void ends(void) {
    int fd = file_with("x");
    FILE *stream = fdopen(dup(fd), "r");
    CHECK(stream != NULL && fgetc(stream) == 'x' && fgetc(stream) == EOF && feof(stream));
    CHECK(pwrite(fd, "y", 1, 1) == 1);
    CHECK(fgetc(stream) == EOF && feof(stream));
    clearerr(stream);
    CHECK(fgetc(stream) == 'y' && fgetc(stream) == EOF);
    CHECK(ungetc('z', stream) == 'z' && !feof(stream) && fgetc(stream) == 'z');
    CHECK(fgetc(stream) == EOF && fseek(stream, 0, SEEK_SET) == 0 && fgetc(stream) == 'x');
    CHECK(fclose(stream) == 0 && close(fd) == 0);
}

static void failures_of_opening(void) {
    int fd = file_with("x");
    errno = 0;
    CHECK(fdopen(1000, "r") == NULL && errno == EBADF);
    errno = 0;
    CHECK(fdopen(fd, "z") == NULL && errno == EINVAL);
    /* The old file is closed in any case. */
    FILE *stream = fdopen(fd, "r");
    errno = 0;
    CHECK(freopen("/tmp/not/there", "r", stream) == NULL && errno == ENOENT);
    FAILS(fcntl(fd, F_GETFD), EBADF);
}

static void parts(void) {
    int fd = file_with("parts");
    char one[2], two[3];
    struct iovec parts[2] = { { one, sizeof one }, { two, sizeof two } };
    FAILS(readv(fd, parts, -1), EINVAL);
    FAILS(writev(fd, parts, -1), EINVAL);
    FAILS(writev(fd, parts, IOV_MAX + 1), EINVAL);
    parts[1].iov_len = SIZE_MAX;
    FAILS(readv(fd, parts, 2), EINVAL);
    parts[1].iov_len = sizeof two;
    CHECK(readv(fd, parts, 2) == 5 && memcmp(one, "pa", 2) == 0 && memcmp(two, "rts", 3) == 0);
    CHECK(close(fd) == 0);
    /* Parts that cannot be read: an error, or the end of what is written. */
    char bytes[5];
    int ends[2];
    CHECK(pipe(ends) == 0);
    void *const bad[] = { NULL, (void *)8, (void *)0x700000000000, (void *)-1 };
    for (int i = 0; i < 4; i++) {
        parts[0] = (struct iovec){ bad[i], 2 };
        FAILS(writev(ends[1], parts, 2), EFAULT);
        parts[0] = (struct iovec){ one, 2 };
        parts[1] = (struct iovec){ bad[i], 3 };
        CHECK(writev(ends[1], parts, 2) == 2);
        CHECK(read(ends[0], bytes, 5) == 2);
        parts[1] = (struct iovec){ two, 3 };
    }
    CHECK(writev(ends[1], parts, 2) == 5 && read(ends[0], bytes, 5) == 5);
    CHECK(memcmp(bytes, "parts", 5) == 0);
    CHECK(close(ends[0]) == 0 && close(ends[1]) == 0);
}

/* Small parts go into a pipe together, though another thread writes to it and it is full at times. */
enum { RECORDS = 40000 };
static int shared[2];

static void *write_records(void *letters) {
    struct iovec both[2] = { { letters, 2 }, { (char *)letters + 2, 6 } };
    for (int i = 0; i < RECORDS; i++)
        CHECK(writev(shared[1], both, 2) == 8);
    return NULL;
}

static void parts_together(void) {
    static char letters[2][9] = { "ABcdefgh", "IJklmnop" };
    pthread_t threads[2];
    CHECK(pipe(shared) == 0);
    for (int i = 0; i < 2; i++)
        CHECK(pthread_create(&threads[i], NULL, write_records, letters[i]) == 0);
    int counts[2] = { 0, 0 }, torn = 0;
    for (int i = 0; i < 2 * RECORDS; i++) {
        char record[8];
        for (int have = 0, count; have < 8; have += count)
            CHECK((count = read(shared[0], record + have, 8 - have)) > 0);
        int whose = record[0] == 'I';
        torn += memcmp(record, letters[whose], 8) != 0;
        counts[whose]++;
    }
    CHECK(torn == 0 && counts[0] == RECORDS && counts[1] == RECORDS);
    for (int i = 0; i < 2; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK(close(shared[0]) == 0 && close(shared[1]) == 0);
}

/* What is appended moves the position to the end of the file. */
static void appended(void) {
    char byte;
    int fd = open("/tmp/appended", O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(fd >= 0 && ftruncate(fd, 100) == 0 && close(fd) == 0);
    FILE *file = fopen("/tmp/appended", "a");
    CHECK(file != NULL && fprintf(file, "0123456789") == 10);
    CHECK(fflush(file) == 0 && ftell(file) == 110 && fclose(file) == 0);
    CHECK((fd = open("/tmp/appended", O_RDWR | O_APPEND)) >= 0);
    CHECK(read(fd, &byte, 1) == 1 && lseek(fd, 0, SEEK_CUR) == 1);
    CHECK(write(fd, "x", 1) == 1 && read(fd, &byte, 1) == 0);
    CHECK(write(fd, "y", 1) == 1 && lseek(fd, -1, SEEK_CUR) == 111);
    CHECK(read(fd, &byte, 1) == 1 && byte == 'y' && lseek(fd, 0, SEEK_CUR) == 112);
    CHECK(close(fd) == 0 && unlink("/tmp/appended") == 0);
}

/* Processes and threads that have one opening of a file share its position. */
enum { WRITERS = 8, LINES = 200 };
static int one_opening;
static _Atomic int bytes_read;

static void *read_lines(void *unused) {
    char line[16];
    (void)unused;
    while (read(one_opening, line, sizeof line) == sizeof line) {
        CHECK(memcmp(line, line + 8, 8) == 0);
        bytes_read += sizeof line;
    }
    return NULL;
}

static void one_position(void) {
    pid_t writers[WRITERS];
    pthread_t readers[2];
    CHECK((one_opening = open("/tmp/one-opening", O_RDWR | O_CREAT | O_TRUNC, 0600)) >= 0);
    for (int i = 0; i < WRITERS; i++) {
        if ((writers[i] = fork()) == 0) {
            char line[17];
            failures = 0;
            for (int number = 0; number < LINES; number++) {
                snprintf(line, sizeof line, "%4d%4d%4d%4d", i, number, i, number);
                CHECK(write(one_opening, line, 16) == 16);
            }
            fflush(stdout);
            _exit(failures);
        }
    }
    for (int i = 0; i < WRITERS; i++) {
        int status = -1;
        CHECK(waitpid(writers[i], &status, 0) == writers[i] && status == 0);
    }
    CHECK(lseek(one_opening, 0, SEEK_CUR) == WRITERS * LINES * 16);
    CHECK(lseek(one_opening, 0, SEEK_SET) == 0);
    for (int i = 0; i < 2; i++)
        CHECK(pthread_create(&readers[i], NULL, read_lines, NULL) == 0);
    for (int i = 0; i < 2; i++)
        CHECK(pthread_join(readers[i], NULL) == 0);
    CHECK(bytes_read == WRITERS * LINES * 16);
    CHECK(close(one_opening) == 0 && unlink("/tmp/one-opening") == 0);
}

/* Programs that lock files whose scheme keeps no locks are told that they cannot. */
static void no_locks(void) {
    int fd = open("/scheme/null", O_RDWR);
    struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
    FAILS(fcntl(fd, F_SETLK, &lock), ENOLCK);
    FAILS(fcntl(fd, F_SETLKW, &lock), ENOLCK);
    FAILS(fcntl(fd, F_GETLK, &lock), ENOLCK);
    CHECK(close(fd) == 0);
    FAILS(fcntl(fd, F_SETLK, &lock), EBADF);
}

/* One thread writes all streams while another one opens and closes some. */
static volatile int stop;

static void *open_and_close(void *argument) {
    for (int i = 0; i < 200; i++) {
        FILE *stream = fopen("/scheme/null", "w");
        CHECK(stream != NULL && fputs("x", stream) >= 0 && fclose(stream) == 0);
    }
    stop = 1;
    return argument;
}

static void closing_beside(void) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, open_and_close, NULL) == 0);
    while (!stop)
        CHECK(fflush(NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
}

static FILE *kept;
static volatile int others_lines, thread_waits;

static void *write_a_line(void *argument) {
    (void)argument;
    CHECK(ftrylockfile(kept) != 0);
    funlockfile(kept);
    thread_waits = 1;
    CHECK(fputs("other\n", kept) >= 0);
    others_lines = 1;
    flockfile(kept);
    CHECK(putc_unlocked('!', kept) == '!');
    funlockfile(kept);
    return NULL;
}

/* A thread keeps a stream for several calls: another one's come before or behind all of them. */
static void keeping(void) {
    int pair[2];
    pthread_t thread;
    char text[32] = { 0 };
    CHECK(pipe(pair) == 0 && (kept = fdopen(pair[1], "w")) != NULL);
    flockfile(kept);
    CHECK(ftrylockfile(kept) == 0);
    CHECK(pthread_create(&thread, NULL, write_a_line, NULL) == 0);
    while (!thread_waits)
        usleep(1000);
    for (const char *next = "kept "; *next; next++) {
        usleep(2000);
        CHECK(putc_unlocked(*next, kept) == *next && !others_lines);
    }
    funlockfile(kept);
    usleep(2000);
    CHECK(fwrite_unlocked("twice ", 1, 6, kept) == 6 && !others_lines);
    /* What may wait for this very stream is shown all the same before input is waited for. */
    funlockfile(kept);
    CHECK(pthread_join(thread, NULL) == 0 && others_lines);
    CHECK(fflush_unlocked(kept) == 0 && !ferror_unlocked(kept) && fileno_unlocked(kept) == pair[1]);
    CHECK(fclose(kept) == 0 && (kept = fdopen(pair[0], "r")) != NULL);
    flockfile(kept);
    CHECK(getc_unlocked(kept) == 'k' && fgetc_unlocked(kept) == 'e');
    CHECK(fread_unlocked(text, 1, 9, kept) == 9 && strcmp(text, "pt twice ") == 0);
    CHECK(fgets_unlocked(text, sizeof text, kept) == text && strcmp(text, "other\n") == 0);
    CHECK(getc_unlocked(kept) == '!' && getc_unlocked(kept) == EOF && feof_unlocked(kept));
    clearerr_unlocked(kept);
    CHECK(!feof_unlocked(kept));
    funlockfile(kept);
    CHECK(fclose(kept) == 0);
}

/* Standard streams stay where they are, also closed ones and after a `freopen` that has failed. */
static void standard(void) {
    CHECK(freopen(NULL, "r", stdin) == stdin);
    errno = 0;
    CHECK(freopen(NULL, "w", stdin) == NULL && errno == EBADF);
    errno = 0;
    CHECK(fgetc(stdin) == EOF && ferror(stdin) && errno == EBADF);
    errno = 0;
    CHECK(fclose(stdin) == EOF && errno == EBADF);
    /* The lowest free number, which is the standard input's. */
    CHECK(file_with("text") == 0);
    FILE *stream = fdopen(0, "r");
    CHECK(stream != NULL && stream != stdin && fgetc(stream) == 't' && fclose(stream) == 0);
    /* With a file again they are among all streams again. */
    CHECK(freopen("/tmp/again", "w", stdin) == stdin && fputs("again", stdin) >= 0);
    CHECK(fflush(NULL) == 0);
    stream = fopen("/tmp/again", "r");
    CHECK(stream != NULL && fgetc(stream) == 'a' && fclose(stream) == 0);
    CHECK(fclose(stdin) == 0 && unlink("/tmp/again") == 0);
}

/* Streams whose file is a block of memory. */
static void blocks(void) {
    char block[8] = "abcdefg", text[16];
    FILE *stream = fmemopen(block, sizeof block, "r");
    CHECK(stream != NULL && fread(text, 1, sizeof text, stream) == 8 && memcmp(text, "abcdefg", 8) == 0 && feof(stream));
    CHECK(fseek(stream, -3, SEEK_END) == 0 && fgetc(stream) == 'f' && ftell(stream) == 6);
    CHECK(fputc('x', stream) == EOF && ferror(stream));
    FAILS(fileno(stream), EBADF);
    FAILS(fseek(stream, 9, SEEK_SET), EINVAL);
    CHECK(fclose(stream) == 0);

    /* The end is that of the text. */
    stream = fmemopen(block, sizeof block, "a+");
    block[3] = 0;
    CHECK(fclose(stream) == 0 && (stream = fmemopen(block, sizeof block, "a+")) != NULL && ftell(stream) == 3);
    CHECK(fputs("XY", stream) >= 0 && fflush(stream) == 0 && strcmp(block, "abcXY") == 0);
    CHECK(fseek(stream, 0, SEEK_SET) == 0 && fputs("Z", stream) >= 0 && ftell(stream) == 6 && fclose(stream) == 0);
    CHECK(strcmp(block, "abcXYZ") == 0);

    stream = fmemopen(block, sizeof block, "w+");
    CHECK(stream != NULL && block[0] == 0 && fprintf(stream, "%d", 12345678) == 8);
    /* All bytes fit, and no zero byte behind them. */
    CHECK(fflush(stream) == 0 && memcmp(block, "12345678", 8) == 0);
    CHECK(fputc('9', stream) == '9' && fflush(stream) == EOF && errno == ENOSPC && ferror(stream));
    clearerr(stream);
    CHECK(fseek(stream, 2, SEEK_SET) == 0 && fgetc(stream) == '3' && fclose(stream) == 0);

    stream = fmemopen(NULL, 100, "w+");
    CHECK(stream != NULL && fputs("one two", stream) >= 0);
    rewind(stream);
    CHECK(fscanf(stream, "%*s %15s", text) == 1 && strcmp(text, "two") == 0 && fgetc(stream) == EOF && fclose(stream) == 0);
    CHECK(!fmemopen(block, sizeof block, "q") && errno == EINVAL);
}

static void growing_blocks(void) {
    char *block = NULL;
    size_t length = 99;
    FILE *stream = open_memstream(&block, &length);
    CHECK(stream != NULL && block != NULL && length == 0 && block[0] == 0);
    for (int i = 0; i < 3000; i++) CHECK(fprintf(stream, "%04d", i) == 4);
    CHECK(fflush(stream) == 0 && length == 12000 && strlen(block) == 12000 && memcmp(block + 4 * 2999, "2999", 4) == 0);
    CHECK(fseeko(stream, 4, SEEK_SET) == 0 && fputs("abcd", stream) >= 0 && fflush(stream) == 0);
    CHECK(length == 8 && memcmp(block, "0000abcd0002", 12) == 0);
    CHECK(fseek(stream, 3, SEEK_END) == 0 && fputc('!', stream) == '!' && ftell(stream) == 12004);
    CHECK(fgetc(stream) == EOF && fclose(stream) == 0);
    CHECK(length == 12004 && memcmp(block + 11996, "2999\0\0\0!", 9) == 0);
    free(block);
    CHECK(!open_memstream(NULL, &length) && errno == EINVAL);
}

int main(void) {
    blocks();
    growing_blocks();
    positions();
    pipes();
    ends();
    failures_of_opening();
    parts();
    parts_together();
    appended();
    one_position();
    no_locks();
    closing_beside();
    keeping();
    standard();
    return finish("streams");
}
