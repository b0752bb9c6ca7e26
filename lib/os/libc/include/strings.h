/* Older string functions. */
#ifndef _STRINGS_H
#define _STRINGS_H
#include <features.h>
#include <stddef.h>

__BEGIN_DECLS
int bcmp(const void *a, const void *b, size_t count);
void bcopy(const void *from, void *to, size_t count);
void bzero(void *start, size_t count);
/* As bzero, and is done even if nothing reads the memory again. */
void explicit_bzero(void *start, size_t count);
char *index(const char *text, int c);
char *rindex(const char *text, int c);
int ffs(int value);
int ffsl(long value);
int ffsll(long long value);
int strcasecmp(const char *a, const char *b);
int strncasecmp(const char *a, const char *b, size_t count);
__END_DECLS
#endif
