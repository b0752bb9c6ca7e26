/* Wide characters and characters of several bytes. */
#include "library.h"

#include <stdlib.h>
#include <time.h>
#include <wchar.h>
#include <wctype.h>

static void characters(void) {
    wchar_t wide = 0;
    mbstate_t state = { { 0 }, 0 };
    char text[8] = "";
    CHECK(mbrtowc(&wide, "a", 1, &state) == 1 && wide == L'a');
    CHECK(mbrtowc(&wide, "\xe2\x82\xac", 3, &state) == 3 && wide == 0x20ac);
    CHECK(mbrtowc(&wide, "\xe2", 1, &state) == (size_t)-2 && !mbsinit(&state));
    CHECK(mbrtowc(&wide, "\x82\xac!", 3, &state) == 2 && wide == 0x20ac && mbsinit(&state));
    CHECK(mbrtowc(&wide, "", 1, &state) == 0 && wide == 0);
    CHECK(mbrtowc(&wide, "x", 0, &state) == (size_t)-2 && mbrtowc(NULL, NULL, 0, &state) == 0);
    errno = 0;
    CHECK(mbrtowc(&wide, "\xff", 1, &state) == (size_t)-1 && errno == EILSEQ && mbsinit(&state));
    errno = 0;
    CHECK(mbrtowc(&wide, "\xed\xa0\x80", 3, &state) == (size_t)-1 && errno == EILSEQ);
    CHECK(mbrlen("\xf0\x9f\x98\x80", 4, NULL) == 4 && mbtowc(&wide, "\xc3\xa4", 2) == 2);
    CHECK(wide == 0xe4 && mblen("\xc3", 1) == -1 && mblen("", 1) == 0);
    CHECK(mbtowc(NULL, NULL, 0) == 0);
    CHECK(wcrtomb(text, 0x1f600, &state) == 4 && !memcmp(text, "\xf0\x9f\x98\x80", 4));
    CHECK(wctomb(text, 0xe4) == 2 && wcrtomb(text, 0, NULL) == 1 && text[0] == 0);
    errno = 0;
    CHECK(wcrtomb(text, 0xd800, NULL) == (size_t)-1 && errno == EILSEQ);
    CHECK(btowc('a') == 'a' && btowc(0x80) == WEOF && wctob(L'z') == 'z' && wctob(0xe4) == EOF);
}

static void strings_of_bytes(void) {
    wchar_t wide[8];
    char text[8];
    CHECK(mbstowcs(wide, "\xc3\xa4" "bc", 8) == 3 && !wcscmp(wide, L"\u00e4bc"));
    CHECK(mbstowcs(NULL, "\xc3\xa4" "bc", 0) == 3 && mbstowcs(wide, "abc", 2) == 2);
    CHECK(mbstowcs(wide, "a\xff", 8) == (size_t)-1);
    CHECK(wcstombs(text, L"\u00e4b", 8) == 3 && !strcmp(text, "\xc3\xa4" "b"));
    /* No character is cut. */
    CHECK(wcstombs(text, L"b\u00e4", 2) == 1 && wcstombs(NULL, L"\u20ac", 0) == 3);
    const char *rest = "abc";
    mbstate_t state = { { 0 }, 0 };
    CHECK(mbsrtowcs(wide, &rest, 2, &state) == 2 && *rest == 'c');
    CHECK(mbsrtowcs(wide, &rest, 2, &state) == 1 && rest == NULL && wide[1] == 0);
    const wchar_t *wide_rest = L"abc";
    CHECK(wcsrtombs(text, &wide_rest, 8, &state) == 3 && wide_rest == NULL);
}

static void wide_strings(void) {
    wchar_t place[16], *rest = NULL;
    CHECK(wcslen(L"abc") == 3 && wcsnlen(L"abc", 2) == 2 && !wcscmp(wcscpy(place, L"ab"), L"ab"));
    CHECK(!wcscmp(wcscat(place, L"cd"), L"abcd") && !wcscmp(wcsncat(place, L"efg", 1), L"abcde"));
    CHECK(wcsncpy(place, L"x", 3)[2] == 0 && wcscmp(L"a", L"b") < 0);
    CHECK(wcsncmp(L"ab", L"ac", 1) == 0);
    CHECK(wcschr(L"abc", L'c')[0] == L'c' && !wcschr(L"abc", L'd') && *wcschr(L"abc", 0) == 0);
    CHECK(wcsrchr(L"aba", L'a')[1] == 0 && !wcscmp(wcsstr(L"abcd", L"bc"), L"bcd"));
    CHECK(!wcsstr(L"abc", L"d") && !wcscmp(wcsstr(L"abc", L""), L"abc"));
    CHECK(!wcscmp(wcsstr(L"abcabdabe", L"abe"), L"abe") && !wcsstr(L"aab", L"aaa"));
    CHECK(!wcscmp(wcspbrk(L"abc", L"xcb"), L"bc") && !wcspbrk(L"", L"a"));
    CHECK(wcsspn(L"aab", L"a") == 2 && wcscspn(L"aab", L"b") == 2 && !wcspbrk(L"a", L"b"));
    wcscpy(place, L" a bc ");
    CHECK(!wcscmp(wcstok(place, L" ", &rest), L"a") && !wcscmp(wcstok(NULL, L" ", &rest), L"bc"));
    CHECK(!wcstok(NULL, L" ", &rest) && !wcstok(NULL, L" ", &rest));
    wchar_t *copy = wcsdup(L"copy");
    CHECK(copy && !wcscmp(copy, L"copy"));
    free(copy);
    CHECK(wmemset(place, L'x', 4)[3] == L'x' && !wmemcmp(place, L"xxxx", 4));
    CHECK(wmemchr(L"abc", L'b', 3)[1] == L'c' && wmemcpy(place, L"ab", 3)[1] == L'b');
    CHECK(wmemmove(place + 1, place, 2)[0] == L'a' && wcscoll(L"b", L"a") > 0);
    CHECK(wcstol(L" -12x", &rest, 10) == -12 && *rest == L'x' && wcstoul(L"ff", NULL, 16) == 255);
    CHECK(wcstod(L"2.5\u20ac", &rest) == 2.5 && *rest == 0x20ac);
}

static void kinds(void) {
    CHECK(iswalpha(0xe4) && iswupper(0xc4) && !iswlower(0xc4) && towlower(0xc4) == 0xe4);
    CHECK(towupper(L'a') == L'A' && towupper(0xdf) == 0xdf && iswdigit(L'7') && !iswdigit(0x663));
    CHECK(iswspace(0x2003) && iswpunct(L'!') && iswxdigit(L'f') && iswcntrl(7) && !iswprint(7));
    CHECK(!iswalpha(WEOF) && iswblank(L'\t') && iswalnum(L'x') && iswgraph(L'x') && iswprint(L' '));
}

/* Bytes and characters with a limit on what is read. */
static void pieces(void) {
    const char *bytes = "a\xc3\xa4" "b";
    wchar_t place[8];
    mbstate_t state = {0};
    /* The second character is cut: the state keeps its beginning. */
    CHECK(mbsnrtowcs(place, &bytes, 2, 8, &state) == 1 && place[0] == L'a' && !mbsinit(&state));
    CHECK(mbsnrtowcs(place, &bytes, 9, 8, &state) == 2 && place[0] == 0xe4 && place[1] == L'b');
    CHECK(bytes == NULL && mbsinit(&state));
    const wchar_t *wide = L"a\u00e4b";
    char text[8] = "";
    CHECK(wcsnrtombs(text, &wide, 2, 8, NULL) == 3 && !memcmp(text, "a\xc3\xa4", 3));
    CHECK(*wide == L'b' && wcsnrtombs(text, &wide, 1, 0, NULL) == 0 && *wide == L'b');
    CHECK(wcsxfrm(place, L"abc", 8) == 3 && !wcscmp(place, L"abc") && strxfrm(text, "xy", 8) == 2);
    CHECK(wcstoll(L"-9000000000", NULL, 10) == -9000000000 && wcstof(L"1.5", NULL) == 1.5F);
    CHECK(wcstoull(L"ffffffffffffffff", NULL, 16) == 0xffffffffffffffffULL);
    CHECK(iswctype(L'7', wctype("digit")) && !iswctype(L'x', wctype("digit")) && !wctype("none"));
    CHECK(towctrans(L'a', wctrans("toupper")) == L'A' && !wctrans("none"));
}

static void streams(void) {
    wchar_t place[8], word[8];
    FILE *file = tmpfile();
    CHECK(file && fputws(L"gr\u00fc\u00dfe\n", file) >= 0 && fputwc(0x20ac, file) == 0x20ac);
    CHECK(fwprintf(file, L" %d %ls|%5s\n", 7, L"\u00fc", "x") > 0);
    rewind(file);
    CHECK(fgetws(place, 4, file) && !wcscmp(place, L"gr\u00fc"));
    CHECK(fgetws(place, 8, file) && !wcscmp(place, L"\u00dfe\n"));
    CHECK(getwc(file) == 0x20ac && ungetwc(0x20ac, file) == 0x20ac && fgetwc(file) == 0x20ac);
    int number = 0;
    char rest[16] = "";
    CHECK(fwscanf(file, L"%d %s", &number, rest) == 2 && number == 7);
    CHECK(!strcmp(rest, "\xc3\xbc|") && fwide(file, 0) == 0);
    rewind(file);
    CHECK(fwrite("\xff", 1, 1, file) == 1);
    rewind(file);
    errno = 0;
    CHECK(fgetwc(file) == WEOF && errno == EILSEQ && ferror(file));
    CHECK(fclose(file) == 0);
    CHECK(swprintf(place, 8, L"%03d%lc", 7, 0xe4) == 4 && !wcscmp(place, L"007\u00e4"));
    CHECK(swprintf(place, 4, L"%s", "abcd") == -1 && place[3] == 0);
    CHECK(swscanf(L"12 x", L"%d%ls", &number, word) >= 1 && number == 12);
    struct tm date = {.tm_year = 126, .tm_mon = 10, .tm_mday = 23};
    wchar_t day[16];
    CHECK(wcsftime(day, 16, L"%Y-%m-%d", &date) == 10 && !wcscmp(day, L"2026-11-23"));
    CHECK(wcsftime(day, 10, L"%Y-%m-%d", &date) == 0);
    char text[16];
    CHECK(snprintf(text, 16, "%ls|%.3ls|%lc", L"\u00e4", L"a\u00e4\u00e4", 0xe4) == 9);
    CHECK(!strcmp(text, "\xc3\xa4|a\xc3\xa4|\xc3\xa4"));
}

int main(void) {
    pieces();
    streams();
    characters();
    strings_of_bytes();
    wide_strings();
    kinds();
    return finish("wide");
}
