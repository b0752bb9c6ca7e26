/* The functions on strings and bytes as they are in the library: called by pointers, as compilers
 * put code of their own in the place of calls by name. */
#include "library.h"

#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <unistd.h>
#include <wchar.h>

/* The function itself. */
#define OWN(function) (*(__typeof__(&function) volatile[]){ function })

static char place[64];

static const char *cleared(void) {
    memset(place, '#', sizeof place);
    place[0] = 0;
    return place;
}

static void copies(void) {
    cleared();
    CHECK(OWN(strcpy)(place, "copy") == place && !memcmp(place, "copy\0#", 6));
    CHECK(OWN(strcpy)(place, "") == place && place[0] == 0 && place[1] == 'o');
    CHECK(OWN(strcat)(place, "abc") == place && OWN(strcat)(place, "de") == place);
    CHECK(!memcmp(place, "abcde\0#", 7));
    CHECK(OWN(stpcpy)(place, "xyz") == place + 3 && !strcmp(place, "xyz"));
    CHECK(OWN(strncpy)(place, "ab", 4) == place && !memcmp(place, "ab\0\0e\0#", 7));
    CHECK(OWN(strncpy)(place, "abcdef", 3) == place && !memcmp(place, "abc\0e", 5));
    CHECK(OWN(strncat)(place, "defg", 2) == place && !strcmp(place, "abcde"));
    cleared();
    CHECK(OWN(memcpy)(place, "bytes", 6) == place && !strcmp(place, "bytes"));
    CHECK(OWN(mempcpy)(place, "by", 2) == place + 2 && place[2] == 't');
    CHECK(OWN(memmove)(place + 1, place, 5) == place + 1 && !memcmp(place, "bbytes#", 7));
    CHECK(OWN(memmove)(place, place + 1, 5) == place && !memcmp(place, "bytess#", 7));
    CHECK(OWN(memset)(place, 'x', 3) == place && !memcmp(place, "xxxes", 5));
    OWN(bcopy)("ab", place, 2);
    OWN(bzero)(place + 2, 2);
    CHECK(!memcmp(place, "ab\0\0s", 5));
    CHECK(OWN(strlcpy)(place, "abcdef", 4) == 6 && !strcmp(place, "abc"));
    CHECK(OWN(strlcat)(place, "xyz", 5) == 6 && !strcmp(place, "abcx"));
    char *copy = OWN(strdup)("twice"), *part = OWN(strndup)("twice", 2);
    CHECK(copy && part && !strcmp(copy, "twice") && !strcmp(part, "tw"));
    free(copy);
    free(part);
}

static void looks(void) {
    const char *text = "abcabc";
    CHECK(OWN(strlen)(text) == 6 && OWN(strnlen)(text, 4) == 4 && OWN(strlen)("") == 0);
    CHECK(OWN(strcmp)("a", "b") < 0 && OWN(strcmp)("\xff", "a") > 0 && OWN(strcmp)("a", "a") == 0);
    CHECK(OWN(strncmp)("ab", "ac", 1) == 0 && OWN(strncmp)("ab", "ac", 2) < 0);
    CHECK(OWN(strverscmp)("a9", "a10") < 0 && OWN(strverscmp)("1.1", "1.01") > 0);
    CHECK(OWN(strverscmp)("00", "0") < 0 && OWN(strverscmp)("b1", "b1") == 0);
    CHECK(OWN(strcasecmp)("aB", "Ab") == 0 && OWN(strncasecmp)("aBc", "Abd", 2) == 0);
    CHECK(OWN(memcmp)("a\0b", "a\0c", 3) < 0 && OWN(memcmp)("x", "y", 0) == 0);
    CHECK(OWN(bcmp)("ab", "ab", 2) == 0 && OWN(bcmp)("ab", "ac", 2) != 0);
    CHECK(OWN(strchr)(text, 'c') == text + 2 && OWN(strchr)(text, 0) == text + 6);
    CHECK(OWN(strrchr)(text, 'c') == text + 5 && !OWN(strrchr)(text, 'x'));
    CHECK(OWN(index)(text, 'b') == text + 1 && OWN(rindex)(text, 'b') == text + 4);
    CHECK(OWN(strchrnul)(text, 'x') == text + 6 && OWN(memchr)(text, 'c', 2) == NULL);
    CHECK(OWN(memchr)(text, 'c', 3) == text + 2 && OWN(memrchr)(text, 'a', 6) == text + 3);
    CHECK(OWN(strstr)(text, "ca") == text + 2 && OWN(strstr)(text, "") == text);
    CHECK(OWN(strcasestr)(text, "CA") == text + 2 && OWN(memmem)(text, 6, "bc", 2) == text + 1);
    CHECK(OWN(strspn)(text, "ab") == 2 && OWN(strcspn)(text, "c") == 2);
    CHECK(OWN(strpbrk)(text, "xc") == text + 2 && !OWN(strpbrk)(text, "x"));
    char *rest = NULL;
    OWN(strcpy)(place, ",a,,b");
    CHECK(!strcmp(OWN(strtok_r)(place, ",", &rest), "a"));
    CHECK(!strcmp(OWN(strtok_r)(NULL, ",", &rest), "b") && !OWN(strtok_r)(NULL, ",", &rest));
    OWN(strcpy)(place, "a,,b");
    rest = place;
    CHECK(!strcmp(OWN(strsep)(&rest, ","), "a") && *OWN(strsep)(&rest, ",") == 0);
    CHECK(!strcmp(OWN(strsep)(&rest, ","), "b") && !OWN(strsep)(&rest, ","));
}

/* Searches read as far as they have to: behind what they find may be a long text, or none. The
 * bytes here end with a page, and the next page is not mapped. */
static void short_looks(void) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(pages != MAP_FAILED && munmap(pages + page, page) == 0);
    char *text = memcpy(pages + page - 9, "ab 12;cde", 9), *end = NULL, *rest = text;
    CHECK(OWN(strchr)(text, 'e') == text + 8 && OWN(strchrnul)(text, 'e') == text + 8);
    CHECK(OWN(strstr)(text, "cde") == text + 6 && OWN(strcasestr)(text, "DE") == text + 7);
    CHECK(OWN(strspn)(text, "abc 12;d") == 8 && OWN(strcspn)(text, "xe") == 8);
    CHECK(OWN(strpbrk)(text, "e;") == text + 5 && OWN(index)(text, 'b') == text + 1);
    CHECK(OWN(strtol)(text + 3, &end, 10) == 12 && end == text + 5);
    CHECK(OWN(strtoull)(text + 2, &end, 0) == 12 && end == text + 5);
    CHECK(OWN(strtod)(text + 2, &end) == 12 && end == text + 5);
    int number = 0;
    char word[4];
    CHECK(OWN(sscanf)(text, "%2s %d;", word, &number) == 2 && number == 12);
    CHECK(OWN(strsep)(&rest, "e;") == text && rest == text + 6 && text[5] == 0);
    text[5] = ';';
    CHECK(OWN(strtok_r)(text, "e;", &rest) == text && rest == text + 6);
    CHECK(munmap(pages, page) == 0);
}

/* Nothing is read behind the byte that ends a number: the next number may be part of a text of
 * very many. That byte ends a page, and the next page is not mapped. */
static void short_numbers(void) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(pages != MAP_FAILED && munmap(pages + page, page) == 0);
    for (const char *next = " \n\t-+,:_(xg"; *next; next++) {
        char *text = memcpy(pages + page - 4, " 12", 3), *end = NULL;
        text[3] = *next;
        CHECK(OWN(strtol)(text, &end, 10) == 12 && end == text + 3);
        CHECK(OWN(strtoul)(text, &end, 0) == 12 && end == text + 3);
        CHECK(OWN(strtod)(text, &end) == 12 && end == text + 3);
        CHECK(OWN(strtof)(text, &end) == 12 && end == text + 3);
        wchar_t *wide = (wchar_t *)(pages + page) - 4, *wide_end = NULL;
        wmemcpy(wide, L" 12", 3);
        wide[3] = *next;
        CHECK(OWN(wcstol)(wide, &wide_end, 10) == 12 && wide_end == wide + 3);
        CHECK(OWN(wcstod)(wide, &wide_end) == 12 && wide_end == wide + 3);
    }
    CHECK(munmap(pages, page) == 0);
}

/* Sequences that begin and end alike, in texts of parts of them. */
static void repeated_looks(void) {
    char text[400];
    memset(text, 'a', sizeof text);
    text[399] = 0;
    text[150] = text[301] = 'b';
    for (int before = 0; before <= 150; before += 30) {
        char wanted[320];
        memset(wanted, 'a', sizeof wanted);
        wanted[before] = 'b';
        for (int after = 0; after <= 150; after += 30) {
            wanted[before + 1 + after] = 0;
            char *first = text + 150 - before;
            CHECK(OWN(strstr)(text, wanted) == first && OWN(strcasestr)(text, wanted) == first);
            CHECK(OWN(memmem)(text, 399, wanted, (size_t)(before + 1 + after)) == first);
            wanted[before + 1 + after] = 'a';
        }
        wanted[before + 151] = 'b';
        wanted[before + 152] = 0;
        CHECK(OWN(strstr)(text, wanted) == text + 150 - before);
        wanted[before + 150] = 'b';
        CHECK(OWN(strstr)(text, wanted) == NULL);
    }
    CHECK(OWN(strstr)("ab", "abc") == NULL && OWN(strcasestr)("", "A") == NULL);
    CHECK(OWN(memmem)(text, 399, "", 0) == text && OWN(memmem)(text, 2, "aaa", 3) == NULL);
}

static void others(void) {
    CHECK(OWN(atoi)(" -12x") == -12 && OWN(atol)("7") == 7 && OWN(abs)(-3) == 3);
    CHECK(OWN(sprintf)(place, "%s", "text") == 4 && !strcmp(place, "text"));
    CHECK(OWN(snprintf)(place, 3, "%d", 12345) == 5 && !strcmp(place, "12"));
    char *block = OWN(calloc)(3, 5);
    CHECK(block && !memcmp(block, "\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 15));
    block = OWN(realloc)(block, 100);
    CHECK(block && block[14] == 0);
    OWN(free)(block);
    /* Zeros that nobody touches are no memory: more than a machine of the tests has. */
    volatile size_t huge = (size_t)8 << 30;
    for (int round = 0; round < 3; round++) {
        block = OWN(calloc)(2, huge / 2 + 5);
        CHECK(block && (uintptr_t)block % 16 == 0 && block[0] == 0 && block[huge + 9] == 0);
        CHECK(malloc_usable_size(block) >= huge + 10);
        memset(block, round + 1, 5000);
        block[huge + 9] = 7;
        if (round == 2)
            block = OWN(realloc)(block, 4000);
        CHECK(block && block[3999] == round + 1);
        OWN(free)(block);
    }
    volatile size_t many = (size_t)-1 / 2;
    CHECK(OWN(calloc)(many, 4) == NULL);
    /* Nothing but the line itself is to be seen. */
    CHECK(OWN(puts)("strings:") >= 0 && OWN(fputs)("", stdout) >= 0 && OWN(putchar)('\n') == '\n');
}

/* Copies that tell where they end. */
static void ends(void) {
    char place[9];
    memset(place, 'x', sizeof place);
    CHECK(OWN(stpncpy)(place, "abc", 8) == place + 3 && !memcmp(place, "abc\0\0\0\0\0x", 9));
    CHECK(OWN(stpncpy)(place, "defghijklm", 8) == place + 8 && !memcmp(place, "defghijkx", 9));
    memset(place, 'x', sizeof place);
    CHECK(OWN(memccpy)(place, "one,two", ',', 7) == place + 4 && !memcmp(place, "one,xxxxx", 9));
    CHECK(OWN(memccpy)(place, "12345", ',', 3) == NULL && !memcmp(place, "123,xxxxx", 9));
    CHECK(OWN(rawmemchr)(place, ',') == place + 3);
    OWN(swab)("abcde", place, 5);
    CHECK(!memcmp(place, "badcxxxxx", 9));
    OWN(swab)(place, place, 4);
    OWN(swab)(place, place, -2);
    CHECK(!memcmp(place, "abcdxxxxx", 9));
}

int main(void) {
    ends();
    copies();
    looks();
    short_looks();
    short_numbers();
    repeated_looks();
    others();
    return finish("strings");
}
