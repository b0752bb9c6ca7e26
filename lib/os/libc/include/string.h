/* Strings and ranges of bytes. */
#ifndef _STRING_H
#define _STRING_H
#include <features.h>
#include <locale.h>
#include <stddef.h>
#include <strings.h>

__BEGIN_DECLS
void *memcpy(void *__restrict_ptr to, const void *__restrict_ptr from, size_t count);
void *mempcpy(void *__restrict_ptr to, const void *__restrict_ptr from, size_t count);
void *memmove(void *to, const void *from, size_t count);
void *memset(void *start, int c, size_t count);
int memcmp(const void *a, const void *b, size_t count);
void *memchr(const void *start, int c, size_t count);
void *memrchr(const void *start, int c, size_t count);
void *rawmemchr(const void *start, int c);
void *memccpy(void *__restrict_ptr to, const void *__restrict_ptr from, int c, size_t count);
void *memmem(const void *start, size_t count, const void *wanted, size_t length);

size_t strlen(const char *text);
size_t strnlen(const char *text, size_t limit);
char *strcpy(char *__restrict_ptr to, const char *__restrict_ptr from);
char *strncpy(char *__restrict_ptr to, const char *__restrict_ptr from, size_t count);
char *stpcpy(char *__restrict_ptr to, const char *__restrict_ptr from);
char *stpncpy(char *__restrict_ptr to, const char *__restrict_ptr from, size_t count);
char *strcat(char *__restrict_ptr to, const char *__restrict_ptr from);
char *strncat(char *__restrict_ptr to, const char *__restrict_ptr from, size_t count);
size_t strlcpy(char *__restrict_ptr to, const char *__restrict_ptr from, size_t size);
size_t strlcat(char *__restrict_ptr to, const char *__restrict_ptr from, size_t size);
int strcmp(const char *a, const char *b);
int strncmp(const char *a, const char *b, size_t count);
int strcoll(const char *a, const char *b);
int strcoll_l(const char *a, const char *b, locale_t locale);
size_t strxfrm(char *place, const char *text, size_t size);
size_t strxfrm_l(char *place, const char *text, size_t size, locale_t locale);
char *strchr(const char *text, int c);
char *strrchr(const char *text, int c);
char *strchrnul(const char *text, int c);
char *strstr(const char *text, const char *wanted);
char *strcasestr(const char *text, const char *wanted);
int strverscmp(const char *a, const char *b);
size_t strspn(const char *text, const char *members);
size_t strcspn(const char *text, const char *members);
char *strpbrk(const char *text, const char *members);
char *strtok(char *text, const char *members);
char *strtok_r(char *text, const char *members, char **place);
char *strsep(char **place, const char *members);
char *strdup(const char *text);
char *strndup(const char *text, size_t limit);
char *basename(const char *path);
char *strerror(int number);
char *strerror_l(int number, locale_t locale);
int strerror_r(int number, char *place, size_t size);
char *strsignal(int number);
__END_DECLS

/* Copies on the stack of the function that asks for them. */
#define strdupa(text) ({ \
    const char *strdupa_from = (text); \
    size_t strdupa_bytes = strlen(strdupa_from) + 1; \
    (char *)memcpy(__builtin_alloca(strdupa_bytes), strdupa_from, strdupa_bytes); \
})
#define strndupa(text, limit) ({ \
    const char *strdupa_from = (text); \
    size_t strdupa_bytes = strnlen(strdupa_from, (limit)); \
    char *strdupa_to = (char *)__builtin_alloca(strdupa_bytes + 1); \
    strdupa_to[strdupa_bytes] = 0; \
    (char *)memcpy(strdupa_to, strdupa_from, strdupa_bytes); \
})
#endif
