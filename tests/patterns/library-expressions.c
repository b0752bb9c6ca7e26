/* Regular expressions: a table of what POSIX says of them, their errors, and hostile ones. */
#include "library.h"

#include <limits.h>
#include <pthread.h>
#include <regex.h>
#include <stdlib.h>

#define GROUPS 8

/* What regexec finds, as a text: (begin,end) for the match and each group, (?,?) for a group that took no part. */
static const char *found(const char *expression, int flags, const char *text, int how) {
    static char places[256];
    regex_t regex;
    regmatch_t matches[GROUPS + 1];
    int error = regcomp(&regex, expression, flags);
    if (error) return sprintf(places, "error %d", error), places;
    error = regexec(&regex, text, GROUPS + 1, matches, how);
    places[0] = 0;
    if (error) sprintf(places, error == REG_NOMATCH ? "-" : "error %d", error);
    for (size_t at = 0; !error && at <= regex.re_nsub && at <= GROUPS; at++) {
        char *end = places + strlen(places);
        if (matches[at].rm_so == -1 && matches[at].rm_eo == -1) strcpy(end, "(?,?)");
        else sprintf(end, "(%ld,%ld)", matches[at].rm_so, matches[at].rm_eo);
    }
    for (size_t at = regex.re_nsub + 1; !error && at <= GROUPS; at++)
        CHECK(matches[at].rm_so == -1 && matches[at].rm_eo == -1);
    regfree(&regex);
    return places;
}

enum { B = 0, E = REG_EXTENDED, I = REG_ICASE, N = REG_NEWLINE };
static const struct {
    int flags;
    const char *expression, *text, *places;
} rows[] = {
    /* The leftmost match, and of those that begin there the longest. */
    { B, "abb*", "abbb", "(0,4)" },
    { B, "bb*", "abbbabbbbb", "(1,4)" },
    { E, "a|ab|abc", "xabcd", "(1,4)" },
    { E, "abc|ab|a", "xabcd", "(1,4)" },
    { E, "(wee|week)(knights|night)", "weeknights", "(0,10)(0,3)(3,10)" },
    { E, "x*|yy", "yy", "(0,2)" },
    { B, "x*", "ax", "(0,0)" },
    { B, "", "ab", "(0,0)" },
    { B, "a", "", "-" },
    /* Groups. */
    { B, "\\(.*\\)", "abc", "(0,3)(0,3)" },
    { B, "\\(a*\\)\\(ab\\)*\\(b*\\)", "abb", "(0,3)(0,1)(?,?)(1,3)" },
    { B, "\\(\\(a\\)\\(b\\)\\)c", "xabc", "(1,4)(1,3)(1,2)(2,3)" },
    { E, "((a)(b(c)))", "abc", "(0,3)(0,3)(0,1)(1,3)(2,3)" },
    { E, "(a|b)*", "abab", "(0,4)(3,4)" },
    { E, "(a)|(b)", "b", "(0,1)(?,?)(0,1)" },
    { E, "a(b)?c", "ac", "(0,2)(?,?)" },
    { E, "()", "a", "(0,0)(0,0)" },
    { E, "(a*)(b*)(c*)", "abbc", "(0,4)(0,1)(1,3)(3,4)" },
    { E, "(a+)(a*)", "aaa", "(0,3)(0,3)(3,3)" },
    /* Groups that are not POSIX's, as docs/c.md says: those would be ab, c and d; and no b. */
    { E, "(a|ab)(c|bcd)(d*)", "abcd", "(0,4)(0,1)(1,4)(4,4)" },
    { E, "((a)(b)?)*", "aba", "(0,3)(2,3)(2,3)(1,2)" },
    /* Repetitions. */
    { B, "a\\{2\\}", "aaa", "(0,2)" },
    { B, "a\\{2,\\}", "baaa", "(1,4)" },
    { B, "a\\{1,2\\}b", "aaab", "(1,4)" },
    { B, "\\(ab\\)\\{2\\}", "ababab", "(0,4)(2,4)" },
    { E, "a{2}", "aaa", "(0,2)" },
    { E, "(ab){1,2}", "ababab", "(0,4)(2,4)" },
    { E, "a+b?", "aa", "(0,2)" },
    { E, "a{0}b", "ab", "(1,2)" },
    { E, "a{1,255}", "aaaa", "(0,4)" },
    /* What is special where. */
    { B, "*a", "b*a", "(1,3)" },
    { B, "\\(*a\\)", "b*a", "(1,3)(1,3)" },
    { B, "^*a", "*a", "(0,2)" },
    { B, "a+?|b", "a+?|b", "(0,5)" },
    { B, "a{2}", "a{2}", "(0,4)" },
    { B, "(a)", "(a)", "(0,3)" },
    { B, "a^b$c", "a^b$c", "(0,5)" },
    { B, "^^a$$", "^a$", "(0,3)" },
    { B, "\\.\\[\\*\\^\\$\\\\", ".[*^$\\", "(0,6)" },
    { E, "\\(\\)\\{\\}\\|\\+\\?", "(){}|+?", "(0,7)" },
    { B, "a.c", "a\nc", "(0,3)" },
    { B, "^b", "ab", "-" },
    { B, "a$", "ab", "-" },
    { E, "^(a|b$)", "b", "(0,1)(0,1)" },
    { E, "(^a)|b", "ab", "(0,1)(0,1)" },
    { B, "^$", "", "(0,0)" },
    { B, "b$", "a\nb\n", "-" },
    /* Sets. */
    { B, "[]a]*", "]a]b", "(0,3)" },
    { B, "[^]a]", "]ab", "(2,3)" },
    { B, "[a-c]*", "abcd", "(0,3)" },
    { B, "[a-]*", "a-b", "(0,2)" },
    { B, "[-a]*", "a-b", "(0,2)" },
    { B, "[%--]*", "$%,-.", "(0,0)" },
    { B, "[%--]*", "%,-.", "(0,3)" },
    { B, "[]-a]*", "]^_`ab", "(0,5)" },
    { B, "[a\\]*", "\\a]", "(0,2)" },
    { B, "[.*$^[]*", "[.*^$a", "(0,5)" },
    { B, "[[:alpha:]_][[:alnum:]_]*", "1a_2-", "(1,4)" },
    { B, "[[:upper:][:digit:]]*", "A1b", "(0,2)" },
    { B, "[^[:space:]]*", "a\tb", "(0,1)" },
    { B, "[[:blank:][:cntrl:]]", "a b", "(1,2)" },
    { B, "[[:punct:]]*", "!~a", "(0,2)" },
    { B, "[[:xdigit:]]*", "09afAFg", "(0,6)" },
    { B, "[[=a=]b]*", "bac", "(0,2)" },
    { B, "[[.-.]a]*", "a-b", "(0,2)" },
    { B, "[[.a.]-c]*", "abcd", "(0,3)" },
    /* Flags. */
    { E | I, "ab[c-d]", "xABC", "(1,4)" },
    { E | I, "[^a]", "Ab", "(1,2)" },
    { E | I, "Ä", "ä", "(0,2)" },
    { E | N, "^b$", "a\nb\nc", "(2,3)" },
    { E | N, "a.b", "a\nb", "-" },
    { E | N, "a[^x]b", "a\nb", "-" },
    { E | N, "a\nb", "a\nb", "(0,3)" },
    { E, "^b$", "a\nb\nc", "-" },
    { E | N, "^", "", "(0,0)" },
    /* Characters of several bytes. */
    { E, "^.{2}$", "äö", "(0,4)" },
    { E, "[ä-ö]+", "xäö", "(1,5)" },
    /* What is refused. */
    { B, "a\\", "", "error 5" },
    { B, "\\(a\\)\\1", "", "error 6" },
    { E, "(a)\\2", "", "error 6" },
    { B, "[", "", "error 7" },
    { B, "[]", "", "error 7" },
    { B, "[a", "", "error 7" },
    { B, "[[:alpha:]", "", "error 7" },
    { B, "[[:alpha", "", "error 7" },
    { B, "\\(a", "", "error 9" },
    { B, "a\\)", "", "error 9" },
    { E, "(a", "", "error 9" },
    { E, "(a))", "", "error 9" },
    { B, "a\\{1", "", "error 10" },
    { E, "a{1", "", "error 10" },
    { E, "a{1,", "", "error 10" },
    { E, "a{2,1}", "", "error 11" },
    { E, "a{x}", "", "error 11" },
    { E, "a{32768}", "", "error 11" },
    { B, "a\\{1,x\\}", "", "error 11" },
    { B, "[z-a]", "", "error 12" },
    { B, "[a-[:digit:]]", "", "error 12" },
    { B, "[[:nothing:]]", "", "error 4" },
    { B, "[[.nothing.]]", "", "error 3" },
    { E, "*a", "", "error 14" },
    { E, "a|*", "", "error 14" },
    { E, "(+)", "", "error 14" },
    { E, "a**", "", "error 14" },
    { B, "a\\{1\\}*", "", "error 14" },
    { B, "\xff", "", "error 2" },
    { E, "a{1,9999}", "", "error 13" },
    { E, "((a{99}){99}){99}", "", "error 13" },
};

static void table(void) {
    for (size_t at = 0; at < sizeof rows / sizeof rows[0]; at++) {
        const char *places = found(rows[at].expression, rows[at].flags, rows[at].text, 0);
        CHECK(!strcmp(places, rows[at].places));
        if (strcmp(places, rows[at].places))
            printf("%s in %s: %s, not %s\n", rows[at].expression, rows[at].text, places, rows[at].places);
    }
}

static void ends(void) {
    CHECK(!strcmp(found("^a", B, "aa", REG_NOTBOL), "-") && !strcmp(found("a$", B, "aa", REG_NOTEOL), "-"));
    CHECK(!strcmp(found("^a", B, "aa", REG_NOTEOL), "(0,1)") && !strcmp(found("a$", B, "aa", REG_NOTBOL), "(1,2)"));
    CHECK(!strcmp(found("^a", N, "b\na", REG_NOTBOL), "(2,3)") && !strcmp(found("a$", N, "a\nb", REG_NOTEOL), "(0,1)"));
    CHECK(!strcmp(found("a*", B, "aa", REG_NOTBOL | REG_NOTEOL), "(0,2)"));
    CHECK(!strcmp(found("^$", B, "", REG_NOTBOL), "-") && !strcmp(found("^$", B, "", REG_NOTEOL), "-"));
}

static void parts_of_texts(void) {
    regex_t regex;
    regmatch_t matches[3] = { { .rm_so = 2, .rm_eo = 5 } };
    CHECK(regcomp(&regex, "^(.)b.?$", E) == 0 && regex.re_nsub == 1);
    CHECK(regexec(&regex, "..a\0b..", 3, matches, REG_STARTEND) == REG_NOMATCH);
    matches[0] = (regmatch_t){ .rm_so = 3, .rm_eo = 6 };
    CHECK(regexec(&regex, "..a\0b\0..", 3, matches, REG_STARTEND) == 0);
    CHECK(matches[0].rm_so == 3 && matches[0].rm_eo == 6 && matches[1].rm_so == 3 && matches[1].rm_eo == 4);
    CHECK(matches[2].rm_so == -1 && matches[2].rm_eo == -1);
    matches[0] = (regmatch_t){ .rm_so = 3, .rm_eo = 6 };
    CHECK(regexec(&regex, "..a\0b\0..", 1, matches, REG_STARTEND | REG_NOTBOL) == REG_NOMATCH);
    matches[0] = (regmatch_t){ .rm_so = 3, .rm_eo = 2 };
    CHECK(regexec(&regex, "..a\0b\0..", 1, matches, REG_STARTEND) == REG_NOMATCH);
    /* Fewer places than groups, or none. */
    CHECK(regexec(&regex, "abc", 1, matches, 0) == 0 && matches[0].rm_so == 0 && matches[0].rm_eo == 3);
    CHECK(regexec(&regex, "abc", 0, NULL, 0) == 0 && regexec(&regex, "bbbb", 0, NULL, 0) == REG_NOMATCH);
    regfree(&regex);
    /* Places that are not wanted are not touched. */
    CHECK(regcomp(&regex, "(a)", E | REG_NOSUB) == 0 && regex.re_nsub == 1);
    matches[0] = (regmatch_t){ .rm_so = 7, .rm_eo = 8 };
    CHECK(regexec(&regex, "ba", 3, matches, 0) == 0 && matches[0].rm_so == 7 && matches[0].rm_eo == 8);
    regfree(&regex);
    /* All matches of a text, one after the other. */
    const char *text = "one two  three";
    int words = 0;
    CHECK(regcomp(&regex, "[a-z]+", E) == 0);
    for (int how = 0; regexec(&regex, text, 1, matches, how) == 0; how = REG_NOTBOL, words++) text += matches[0].rm_eo;
    CHECK(words == 3 && *text == 0);
    regfree(&regex);
}

static void errors(void) {
    regex_t regex;
    char text[64], start[4];
    CHECK(regcomp(&regex, "[", B) == REG_EBRACK);
    size_t size = regerror(REG_EBRACK, &regex, text, sizeof text);
    CHECK(size == strlen(text) + 1 && strchr(text, '['));
    CHECK(regerror(REG_EBRACK, NULL, NULL, 0) == size);
    CHECK(regerror(REG_EBRACK, NULL, start, sizeof start) == size && !start[3] && !strncmp(start, text, 3));
    for (int error = 0; error <= REG_BADRPT; error++) CHECK(regerror(error, NULL, text, sizeof text) > 5);
    CHECK(regerror(-1, NULL, text, sizeof text) > 5 && regerror(99, NULL, text, sizeof text) > 5);
    /* Nothing is left to free, which may be done all the same. */
    regfree(&regex);
    CHECK(regexec(&regex, "a", 0, NULL, 0) == REG_BADPAT);
}

/* A text of one part many times. */
static char *many(const char *part, size_t count) {
    char *text = malloc(strlen(part) * count + 1);
    text[0] = 0;
    for (size_t at = 0; text && at < count; at++) memcpy(text + at * strlen(part), part, strlen(part) + 1);
    return text;
}

static int compiled(const char *part, size_t count, int flags) {
    regex_t regex;
    char *text = many(part, count);
    int error = regcomp(&regex, text, flags);
    free(text);
    regfree(&regex);
    return error;
}

/* In a thread, whose stack is smaller. */
static void *hostile(void *nothing) {
    CHECK(compiled("(", 100000, E) == REG_ESPACE && compiled("\\(", 10000, B) == REG_ESPACE);
    CHECK(compiled("(", 40, E) == REG_EPAREN && compiled(")", 10000, E) == REG_EPAREN);
    CHECK(compiled("[", 10000, B) == REG_EBRACK && compiled("[[:", 10000, B) == REG_EBRACK);
    char most[16];
    sprintf(most, "(){%d}", RE_DUP_MAX);
    CHECK(compiled(most, 1, E) == 0);
    CHECK(compiled("*", 10000, E) == REG_BADRPT && compiled("*", 1000, B) == REG_BADRPT);
    CHECK(compiled("a", 100000, B) == REG_ESPACE && compiled("(a)", 3000, E) == REG_ESPACE);
    CHECK(compiled("a|", 5000, E) == 0 && compiled("^", 5000, E) == 0 && compiled("$", 5000, B) == 0);
    /* Each would take longer than the world is old if every way were tried. */
    char *text = many("a", 3000);
    CHECK(!strcmp(found("(a*)*b", E, text, 0), "-") && !strcmp(found("(a|a)*b", E, text, 0), "-"));
    CHECK(!strcmp(found("(a?){30}a{30}b", E, text, 0), "-") && !strcmp(found("(a|aa)+", E, text, 0), "(0,3000)(2999,3000)"));
    free(text);
    return nothing;
}

int main(void) {
    pthread_t thread;
    table();
    ends();
    parts_of_texts();
    errors();
    CHECK(pthread_create(&thread, NULL, hostile, NULL) == 0 && pthread_join(thread, NULL) == 0);
    return finish("expressions");
}
