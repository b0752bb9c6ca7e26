/* Wide characters, which are Unicode's; text in bytes is UTF-8, that of streams too. In formats,
 * widths and precisions count bytes of it. */
#ifndef _WCHAR_H
#define _WCHAR_H
#include <features.h>
#include <locale.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

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
size_t mbsnrtowcs(wchar_t *place, const char **text, size_t bytes, size_t limit, mbstate_t *state);
size_t wcsnrtombs(char *place, const wchar_t **text, size_t count, size_t limit, mbstate_t *state);
wint_t btowc(int byte);
int wctob(wint_t c);

size_t wcslen(const wchar_t *text);
size_t wcsnlen(const wchar_t *text, size_t limit);
wchar_t *wcscpy(wchar_t *to, const wchar_t *from);
wchar_t *wcsncpy(wchar_t *to, const wchar_t *from, size_t count);
wchar_t *wcpcpy(wchar_t *to, const wchar_t *from);
wchar_t *wcpncpy(wchar_t *to, const wchar_t *from, size_t count);
wchar_t *wcscat(wchar_t *to, const wchar_t *from);
wchar_t *wcsncat(wchar_t *to, const wchar_t *from, size_t count);
int wcscmp(const wchar_t *a, const wchar_t *b);
int wcsncmp(const wchar_t *a, const wchar_t *b, size_t count);
int wcscasecmp(const wchar_t *a, const wchar_t *b);
int wcsncasecmp(const wchar_t *a, const wchar_t *b, size_t count);
/* Columns on a terminal; -1 for a character that is not shown. */
int wcwidth(wchar_t c);
int wcswidth(const wchar_t *text, size_t count);
int wcscoll(const wchar_t *a, const wchar_t *b);
int wcscoll_l(const wchar_t *a, const wchar_t *b, locale_t locale);
size_t wcsxfrm(wchar_t *place, const wchar_t *text, size_t size);
size_t wcsxfrm_l(wchar_t *place, const wchar_t *text, size_t size, locale_t locale);
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
long long wcstoll(const wchar_t *text, wchar_t **end, int base);
unsigned long long wcstoull(const wchar_t *text, wchar_t **end, int base);
double wcstod(const wchar_t *text, wchar_t **end);
float wcstof(const wchar_t *text, wchar_t **end);
long double wcstold(const wchar_t *text, wchar_t **end);
size_t wcsftime(wchar_t *place, size_t size, const wchar_t *format, const struct tm *date);

wint_t fgetwc(FILE *file);
wint_t getwc(FILE *file);
wint_t getwchar(void);
wint_t ungetwc(wint_t c, FILE *file);
wchar_t *fgetws(wchar_t *place, int size, FILE *file);
wint_t fputwc(wchar_t c, FILE *file);
wint_t putwc(wchar_t c, FILE *file);
wint_t putwchar(wchar_t c);
int fputws(const wchar_t *text, FILE *file);
int fwide(FILE *file, int mode);

int wprintf(const wchar_t *format, ...);
int fwprintf(FILE *file, const wchar_t *format, ...);
int swprintf(wchar_t *place, size_t size, const wchar_t *format, ...);
int vwprintf(const wchar_t *format, va_list list);
int vfwprintf(FILE *file, const wchar_t *format, va_list list);
int vswprintf(wchar_t *place, size_t size, const wchar_t *format, va_list list);
int wscanf(const wchar_t *format, ...);
int fwscanf(FILE *file, const wchar_t *format, ...);
int swscanf(const wchar_t *text, const wchar_t *format, ...);
int vwscanf(const wchar_t *format, va_list list);
int vfwscanf(FILE *file, const wchar_t *format, va_list list);
int vswscanf(const wchar_t *text, const wchar_t *format, va_list list);
__END_DECLS
#endif
