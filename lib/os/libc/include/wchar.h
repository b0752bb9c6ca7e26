/* Wide characters, which are Unicode's; text in bytes is UTF-8. Not there: wide streams and formats. */
#ifndef _WCHAR_H
#define _WCHAR_H
#include <features.h>
#include <stddef.h>
#include <stdint.h>

typedef unsigned wint_t;
typedef struct {
    unsigned char __bytes[4];
    unsigned __count;
} mbstate_t;
#define WEOF ((wint_t)-1)

__BEGIN_DECLS
int mbsinit(const mbstate_t *state);
size_t mbrlen(const char *text, size_t limit, mbstate_t *state);
size_t mbrtowc(wchar_t *place, const char *text, size_t limit, mbstate_t *state);
size_t wcrtomb(char *place, wchar_t c, mbstate_t *state);
size_t mbsrtowcs(wchar_t *place, const char **text, size_t limit, mbstate_t *state);
size_t wcsrtombs(char *place, const wchar_t **text, size_t limit, mbstate_t *state);
wint_t btowc(int byte);
int wctob(wint_t c);

size_t wcslen(const wchar_t *text);
size_t wcsnlen(const wchar_t *text, size_t limit);
wchar_t *wcscpy(wchar_t *to, const wchar_t *from);
wchar_t *wcsncpy(wchar_t *to, const wchar_t *from, size_t count);
wchar_t *wcscat(wchar_t *to, const wchar_t *from);
wchar_t *wcsncat(wchar_t *to, const wchar_t *from, size_t count);
int wcscmp(const wchar_t *a, const wchar_t *b);
int wcsncmp(const wchar_t *a, const wchar_t *b, size_t count);
int wcscoll(const wchar_t *a, const wchar_t *b);
wchar_t *wcschr(const wchar_t *text, wchar_t c);
wchar_t *wcsrchr(const wchar_t *text, wchar_t c);
wchar_t *wcsstr(const wchar_t *text, const wchar_t *wanted);
size_t wcsspn(const wchar_t *text, const wchar_t *members);
size_t wcscspn(const wchar_t *text, const wchar_t *members);
wchar_t *wcspbrk(const wchar_t *text, const wchar_t *members);
wchar_t *wcstok(wchar_t *text, const wchar_t *members, wchar_t **place);
wchar_t *wcsdup(const wchar_t *text);
wchar_t *wmemcpy(wchar_t *to, const wchar_t *from, size_t count);
wchar_t *wmemmove(wchar_t *to, const wchar_t *from, size_t count);
wchar_t *wmemset(wchar_t *start, wchar_t c, size_t count);
int wmemcmp(const wchar_t *a, const wchar_t *b, size_t count);
wchar_t *wmemchr(const wchar_t *start, wchar_t c, size_t count);
long wcstol(const wchar_t *text, wchar_t **end, int base);
unsigned long wcstoul(const wchar_t *text, wchar_t **end, int base);
double wcstod(const wchar_t *text, wchar_t **end);
__END_DECLS
#endif
