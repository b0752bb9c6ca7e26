/* Names of files by patterns, directories and walks through them, users, and options of command lines. */
#include "library.h"

#include <dirent.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <ftw.h>
#include <getopt.h>
#include <glob.h>
#include <grp.h>
#include <limits.h>
#include <pwd.h>
#include <stdlib.h>
#include <sys/ipc.h>
#include <sys/stat.h>
#include <unistd.h>

#define TREE "/tmp/library-names"

static void make_file(const char *path, const char *text) {
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    CHECK(file >= 0 && write(file, text, strlen(text)) == (ssize_t)strlen(text) && close(file) == 0);
}

/* A tree of three directories and five files. */
static void make_tree(void) {
    CHECK(mkdir(TREE, 0700) == 0 && mkdir(TREE "/b", 0700) == 0 && mkdir(TREE "/b/deep", 0700) == 0);
    make_file(TREE "/a.c", "1");
    make_file(TREE "/a.h", "22");
    make_file(TREE "/.hidden", "333");
    make_file(TREE "/b/a.c", "4444");
    make_file(TREE "/b/deep/x*y", "55555");
}

static int remove_file(const char *path, const struct stat *stat, int kind, struct FTW *place) {
    (void)stat, (void)place;
    return kind == FTW_DP ? rmdir(path) : unlink(path);
}

static void remove_tree(void) {
    CHECK(nftw(TREE, remove_file, 1, FTW_DEPTH) == 0);
    FAILS(access(TREE, F_OK), ENOENT);
}

static void patterns(void) {
    CHECK(fnmatch("*.c", "main.c", 0) == 0 && fnmatch("*.c", "main.h", 0) == FNM_NOMATCH);
    CHECK(fnmatch("*", "a/b", FNM_PATHNAME) == FNM_NOMATCH && fnmatch("*/?", "a/b", FNM_PATHNAME) == 0);
    CHECK(fnmatch("*", ".c", FNM_PERIOD) == FNM_NOMATCH && fnmatch("MAIN", "main", FNM_CASEFOLD) == 0);
    CHECK(fnmatch("a\\*", "a\\b", FNM_NOESCAPE) == 0 && fnmatch("[[:alpha:]-]", "-", 0) == 0);
    CHECK(fnmatch("a", "a/b", FNM_LEADING_DIR) == 0);
}

/* Places in a directory, and its beginning again. */
static void places(void) {
    char names[8][256] = { "" };
    long after[8] = { 0 };
    int count = 0;
    DIR *directory = opendir(TREE);
    CHECK(directory != NULL && telldir(directory) == 0);
    for (struct dirent *entry; count < 8 && (entry = readdir(directory)) != NULL; count++) {
        snprintf(names[count], sizeof names[count], "%s", entry->d_name);
        after[count] = telldir(directory);
        CHECK(entry->d_off == after[count] && after[count] != 0);
    }
    CHECK(count == 4 && readdir(directory) == NULL);
    for (int from = 0; from < count - 1; from++) {
        seekdir(directory, after[from]);
        struct dirent *entry = readdir(directory);
        CHECK(entry && !strcmp(entry->d_name, names[from + 1]));
    }
    unlink(TREE "/new");
    make_file(TREE "/new", "");
    rewinddir(directory);
    struct dirent *entry = readdir(directory);
    CHECK(entry && !strcmp(entry->d_name, names[0]));
    int seen = 0;
    while ((entry = readdir(directory)) != NULL) {
        seen += !strcmp(entry->d_name, "new");
    }
    CHECK(seen == 1 && unlink(TREE "/new") == 0 && closedir(directory) == 0);
}

/* The only user and the only group. */
static void users(void) {
    for (int round = 0; round < 2; round++) {
        struct passwd *user = getpwent();
        CHECK(user && user->pw_uid == 0 && !strcmp(user->pw_name, "root") && !getpwent());
        struct group *group = getgrent();
        CHECK(group && group->gr_gid == 0 && !strcmp(group->gr_name, "root") && !getgrent());
        setpwent();
        setgrent();
    }
    endpwent();
    endgrent();
}

static int told;
static int told_of_file(const char *path, int error) {
    (void)path, (void)error;
    return ++told, 0;
}

static void paths(void) {
    glob_t found = { .gl_offs = 2 };
    CHECK(glob(TREE "/*.[ch]", GLOB_DOOFFS, NULL, &found) == 0 && found.gl_pathc == 2);
    CHECK(!found.gl_pathv[0] && !found.gl_pathv[1] && !found.gl_pathv[4]);
    CHECK(!strcmp(found.gl_pathv[2], TREE "/a.c") && !strcmp(found.gl_pathv[3], TREE "/a.h"));
    CHECK(glob(TREE "/*/a.c", GLOB_DOOFFS | GLOB_APPEND, told_of_file, &found) == 0 && found.gl_pathc == 3);
    CHECK(!strcmp(found.gl_pathv[4], TREE "/b/a.c") && !found.gl_pathv[5] && told == 0);
    CHECK(glob(TREE "/nothing*", GLOB_DOOFFS | GLOB_APPEND, NULL, &found) == GLOB_NOMATCH && found.gl_pathc == 3);
    globfree(&found);
    CHECK(glob(TREE "/*", GLOB_MARK, NULL, &found) == 0 && found.gl_pathc == 3);
    CHECK(!strcmp(found.gl_pathv[2], TREE "/b/"));
    globfree(&found);
    CHECK(glob(TREE "/*", GLOB_PERIOD, NULL, &found) == 0 && found.gl_pathc == 4);
    globfree(&found);
    CHECK(glob(TREE "//b//", 0, NULL, &found) == 0 && !strcmp(found.gl_pathv[0], TREE "//b//"));
    globfree(&found);
    CHECK(glob(TREE "/*/", 0, NULL, &found) == 0 && found.gl_pathc == 1 && !strcmp(found.gl_pathv[0], TREE "/b/"));
    globfree(&found);
    CHECK(glob(TREE "/b/deep/x\\*y", 0, NULL, &found) == 0 && !strcmp(found.gl_pathv[0], TREE "/b/deep/x*y"));
    globfree(&found);
    CHECK(glob(TREE "/x\\*y", 0, NULL, &found) == GLOB_NOMATCH);
    CHECK(glob(TREE "/x[", GLOB_NOCHECK, NULL, &found) == 0 && !strcmp(found.gl_pathv[0], TREE "/x["));
    globfree(&found);
    /* What cannot be looked through is passed over. */
    CHECK(glob(TREE "/a.c/*", GLOB_ERR, told_of_file, &found) == GLOB_NOMATCH && told == 0);
    CHECK(setenv("HOME", TREE, 1) == 0 && glob("~/?.h", GLOB_TILDE, NULL, &found) == 0);
    CHECK(found.gl_pathc == 1 && !strcmp(found.gl_pathv[0], TREE "/a.h"));
    globfree(&found);
    CHECK(glob("~/?.h", 0, NULL, &found) == GLOB_NOMATCH);
    CHECK(chdir(TREE "/b") == 0 && glob("*", 0, NULL, &found) == 0 && found.gl_pathc == 2);
    CHECK(!strcmp(found.gl_pathv[0], "a.c") && !strcmp(found.gl_pathv[1], "deep"));
    globfree(&found);
    CHECK(glob("../?.h", 0, NULL, &found) == 0 && !strcmp(found.gl_pathv[0], "../a.h"));
    globfree(&found);
    CHECK(chdir("/") == 0 && glob("/", 0, NULL, &found) == 0 && !strcmp(found.gl_pathv[0], "/"));
    globfree(&found);
}

static int files, directories, after, bytes, deepest, calls, stops_at, wrong;

static int visit(const char *path, const struct stat *stat, int kind, struct FTW *place) {
    files += kind == FTW_F;
    directories += kind == FTW_D;
    after += kind == FTW_DP;
    if (kind == FTW_F) bytes += stat->st_size;
    if (place->level > deepest) deepest = place->level;
    wrong += !strcmp(path, TREE "/b/a.c") && (place->base != sizeof TREE + 2 || place->level != 2);
    return ++calls == stops_at ? 77 : 0;
}

/* What was named is in the directory where the program works. */
static int visit_there(const char *path, const struct stat *stat, int kind, struct FTW *place) {
    struct stat same;
    (void)kind;
    wrong += lstat(path + place->base, &same) != 0 || same.st_ino != stat->st_ino;
    return 0;
}

static int plain_calls;
static int visit_plain(const char *path, const struct stat *stat, int kind) {
    (void)path, (void)stat;
    return plain_calls++, kind == FTW_DNR;
}

static void walks(void) {
    CHECK(nftw(TREE, visit, 8, FTW_PHYS) == 0 && !wrong);
    CHECK(files == 5 && directories == 3 && after == 0 && bytes == 15 && deepest == 3 && calls == 8);
    files = directories = calls = 0;
    CHECK(nftw(TREE "/", visit, 1, FTW_DEPTH | FTW_MOUNT) == 0 && files == 5 && directories == 0 && after == 3);
    stops_at = calls + 2;
    CHECK(nftw(TREE, visit, 1, 0) == 77);
    FAILS(nftw(TREE "/nothing", visit, 1, 0), ENOENT);
    CHECK(chdir("/tmp") == 0 && nftw("library-names", visit_there, 1, FTW_CHDIR) == 0 && !wrong);
    char place[64] = "";
    CHECK(getcwd(place, sizeof place) && !strcmp(place, "/tmp"));
    CHECK(ftw(TREE, visit_plain, 1) == 0 && plain_calls == 8);
}

/* What getopt finds, as a text: letters with their arguments, then | and the operands. */
static const char *options(const char *letters, const struct option *names, int only_long, int count, char **words) {
    static char text[256];
    text[0] = 0;
    optind = 0;
    opterr = 0;
    for (;;) {
        int index = -1;
        int found = !names    ? getopt(count, words, letters)
                    : only_long ? getopt_long_only(count, words, letters, names, &index)
                                : getopt_long(count, words, letters, names, &index);
        if (found < 0) break;
        char *end = text + strlen(text);
        if (index >= 0) sprintf(end, "%s", names[index].name);
        else sprintf(end, "%c", found == 1 ? '-' : found);
        if (optarg) sprintf(text + strlen(text), "=%s", optarg);
        strcat(text, " ");
    }
    strcat(text, "|");
    for (int at = optind; at < count; at++) sprintf(text + strlen(text), " %s", words[at]);
    return text;
}
#define OPTIONS(letters, names, only_long, ...)                                                      \
    options(letters, names, only_long,                                                               \
            (int)(sizeof((char *[]){ __VA_ARGS__ }) / sizeof(char *)), (char *[]){ __VA_ARGS__, NULL })

static void command_lines(void) {
    static const struct option names[] = {
        { "size", required_argument, NULL, 's' },
        { "quiet", no_argument, NULL, 'q' },
        { "color", optional_argument, NULL, 'c' },
        { "colour", optional_argument, NULL, 'c' },
        { 0 },
    };
    CHECK(!strcmp(OPTIONS("ab:", NULL, 0, "x", "-a", "-b", "1"), "a b=1 |"));
    /* Operands before options come behind them, in their order. */
    CHECK(!strcmp(OPTIONS("ab:", NULL, 0, "x", "1", "-a", "2", "-b", "3", "4"), "a b=3 | 1 2 4"));
    CHECK(!strcmp(OPTIONS("abc", NULL, 0, "x", "1", "-abc", "2", "-a"), "a b c a | 1 2"));
    CHECK(!strcmp(OPTIONS("ab", NULL, 0, "x", "1", "-a", "--", "-b", "2"), "a | 1 -b 2"));
    CHECK(!strcmp(OPTIONS("ab", NULL, 0, "x", "-", "-a"), "a | -"));
    CHECK(!strcmp(OPTIONS("ab", NULL, 0, "x", "1", "2"), "| 1 2"));
    CHECK(!strcmp(OPTIONS("+ab", NULL, 0, "x", "-a", "1", "-b"), "a | 1 -b"));
    CHECK(!strcmp(OPTIONS("-ab", NULL, 0, "x", "1", "-a", "2", "-b"), "-=1 a -=2 b |"));
    CHECK(!strcmp(OPTIONS("b:", NULL, 0, "x", "1", "-c", "-b"), "? ? | 1"));
    CHECK(!strcmp(OPTIONS(":b:", NULL, 0, "x", "1", "-b"), ": | 1"));
    CHECK(!strcmp(OPTIONS("qs:", names, 0, "x", "1", "--size", "7", "2", "-q", "--color=red", "3"),
                  "size=7 q color=red | 1 2 3"));
    CHECK(!strcmp(OPTIONS("q", names, 0, "x", "--si=7", "--col", "--quiet=1"), "size=7 color ? |"));
    CHECK(!strcmp(OPTIONS("qs:", names, 1, "x", "1", "-size", "7", "-qu", "-q", "-s9"), "size=7 quiet q s=9 | 1"));
    /* What an option was that lacks its argument, or has one too many. */
    CHECK(!strcmp(OPTIONS(":", names, 0, "x", "--size"), ": |") && optopt == 's');
    CHECK(!strcmp(OPTIONS(":", names, 0, "x", "--quiet=1"), "? |") && optopt == 'q');
    CHECK(setenv("POSIXLY_CORRECT", "1", 1) == 0);
    CHECK(!strcmp(OPTIONS("ab", NULL, 0, "x", "-a", "1", "-b"), "a | 1 -b"));
    CHECK(putenv("POSIXLY_CORRECT") == 0 && !getenv("POSIXLY_CORRECT"));
}

/* Directories and their descriptors. */
static void descriptors(void) {
    DIR *directory = opendir(TREE "/b");
    int number = directory ? dirfd(directory) : -1;
    struct stat opened, found;
    CHECK(number >= 0 && fstat(number, &opened) == 0 && stat(TREE "/b", &found) == 0);
    CHECK(S_ISDIR(opened.st_mode) && opened.st_ino == found.st_ino);
    CHECK((fcntl(number, F_GETFD) & FD_CLOEXEC) && readdir(directory) != NULL);
    CHECK(fstatat(number, "a.c", &found, 0) == 0 && found.st_size == 4);
    CHECK(closedir(directory) == 0);
    FAILS(fstat(number, &opened), EBADF);

    number = open(TREE "/b", O_RDONLY | O_DIRECTORY);
    directory = fdopendir(number);
    CHECK(directory != NULL && dirfd(directory) == number);
    int files = 0;
    for (struct dirent *entry; directory && (entry = readdir(directory)) != NULL;)
        files += !strcmp(entry->d_name, "a.c") || !strcmp(entry->d_name, "deep");
    CHECK(files == 2 && closedir(directory) == 0);
    errno = 0;
    CHECK(fdopendir(number) == NULL && errno == EBADF);
    number = open(TREE "/a.c", O_RDONLY);
    errno = 0;
    CHECK(fdopendir(number) == NULL && errno == ENOTDIR && close(number) == 0);
    number = open("/scheme", O_RDONLY | O_DIRECTORY);
    directory = fdopendir(number);
    CHECK(directory != NULL && readdir(directory) != NULL && closedir(directory) == 0);
    /* One that is not open for reading. */
    number = open(TREE "/b", O_PATH | O_DIRECTORY);
    errno = 0;
    CHECK(number >= 0 && fdopendir(number) == NULL && errno == EBADF && close(number) == 0);
}

/* Names that end with a slash are those of directories. */
static void slashes(void) {
    static const char file[] = TREE "/a.c/", dot[] = TREE "/a.c/.", directory[] = TREE "/b/";
    struct stat stat_of;
    for (int round = 0; round < 2; round++) {
        const char *name = round ? dot : file;
        FAILS(open(name, O_RDONLY), ENOTDIR);
        FAILS(open(name, O_WRONLY | O_CREAT, 0600), EISDIR);
        FAILS(stat(name, &stat_of), ENOTDIR);
        FAILS(access(name, F_OK), ENOTDIR);
        FAILS(access(name, W_OK), ENOTDIR);
        FAILS(chmod(name, 0600), ENOTDIR);
        FAILS(truncate(name, 0), ENOTDIR);
        FAILS(unlink(name), ENOTDIR);
        FAILS(remove(name), ENOTDIR);
        FAILS(rename(name, TREE "/other"), ENOTDIR);
        FAILS(rename(TREE "/a.h", name), ENOTDIR);
        FAILS(renameat2(AT_FDCWD, name, AT_FDCWD, TREE "/other", RENAME_NOREPLACE), ENOTDIR);
        FAILS(renameat2(AT_FDCWD, TREE "/a.h", AT_FDCWD, TREE "/new/", RENAME_NOREPLACE), ENOTDIR);
        FAILS(access(TREE "/new", F_OK), ENOENT);
        FAILS(ftok(name, 1), ENOTDIR);
        FAILS(nftw(name, visit, 1, 0), ENOTDIR);
        FAILS(ftw(name, visit_plain, 1), ENOTDIR);
        errno = 0;
        CHECK(realpath(name, NULL) == NULL && errno == ENOTDIR);
        errno = 0;
        CHECK(fopen(name, "r") == NULL && errno == ENOTDIR);
    }
    FAILS(creat(TREE "/new/", 0600), EISDIR);
    FAILS(open(TREE "/new/", O_RDONLY), ENOENT);
    FAILS(unlink(TREE "/new/"), ENOENT);
    FAILS(unlink(directory), EISDIR);
    CHECK(stat(TREE "/a.c", &stat_of) == 0 && stat_of.st_size == 1);
    CHECK(stat(directory, &stat_of) == 0 && S_ISDIR(stat_of.st_mode));
    CHECK(stat("/", &stat_of) == 0 && stat("/scheme/", &stat_of) == 0 && access("/bin/", F_OK) == 0);
    int opened = open(directory, O_RDONLY);
    CHECK(opened >= 0 && close(opened) == 0);
    CHECK(mkdir(TREE "/c/", 0700) == 0 && rename(TREE "/c/", TREE "/d/") == 0);
    CHECK(rmdir(TREE "/d/") == 0);
    char place[PATH_MAX] = "";
    CHECK(realpath(directory, place) == place && !strcmp(place, TREE "/b"));
    CHECK(realpath("/", place) == place && !strcmp(place, "/") && ftok(directory, 1) != -1);
    CHECK(renameat2(AT_FDCWD, TREE "/a.h", AT_FDCWD, TREE "/moved", RENAME_NOREPLACE) == 0);
    CHECK(rename(TREE "/moved", TREE "/a.h") == 0 && calls == 0 && plain_calls == 0);
}

int main(void) {
    make_tree();
    slashes();
    descriptors();
    patterns();
    paths();
    places();
    users();
    walks();
    command_lines();
    remove_tree();
    return finish("names");
}
