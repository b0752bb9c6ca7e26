/* Regular expressions, basic and extended; docs/c.md says what differs from POSIX. */
#ifndef _REGEX_H
#define _REGEX_H
#include <features.h>
#include <stddef.h>

typedef long regoff_t;
typedef struct {
    size_t re_nsub;
    void *__compiled;
} regex_t;
typedef struct {
    regoff_t rm_so, rm_eo;
} regmatch_t;

/* For regcomp. */
#define REG_EXTENDED 1
#define REG_ICASE 2
#define REG_NOSUB 4
#define REG_NEWLINE 8
#define REG_BASIC 0
/* For regexec. With REG_STARTEND the text is what the first match says, which may have zero bytes. */
#define REG_NOTBOL 16
#define REG_NOTEOL 32
#define REG_STARTEND 64

#define REG_NOERROR 0
#define REG_NOMATCH 1
#define REG_BADPAT 2
#define REG_ECOLLATE 3
#define REG_ECTYPE 4
#define REG_EESCAPE 5
#define REG_ESUBREG 6
#define REG_EBRACK 7
#define REG_ENOSYS 8
#define REG_EPAREN 9
#define REG_EBRACE 10
#define REG_BADBR 11
#define REG_ERANGE 12
#define REG_ESPACE 13
#define REG_BADRPT 14

__BEGIN_DECLS
int regcomp(regex_t *regex, const char *expression, int flags);
int regexec(const regex_t *regex, const char *text, size_t count, regmatch_t *matches, int flags);
size_t regerror(int error, const regex_t *regex, char *text, size_t size);
void regfree(regex_t *regex);
__END_DECLS
#endif
