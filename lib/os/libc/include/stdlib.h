/* Memory, numbers in text, sorting, the environment, the end of the program. */
#ifndef _STDLIB_H
#define _STDLIB_H
#include <features.h>
#include <alloca.h>
#include <locale.h>
#include <stddef.h>

#define EXIT_SUCCESS 0
#define EXIT_FAILURE 1
#define RAND_MAX 0x7fffffff
#define MB_CUR_MAX 4

typedef struct {
    int quot, rem;
} div_t;
typedef struct {
    long quot, rem;
} ldiv_t;
typedef struct {
    long long quot, rem;
} lldiv_t;

__BEGIN_DECLS
void *malloc(size_t size) __attribute__((__malloc__));
void *calloc(size_t count, size_t size) __attribute__((__malloc__));
void *realloc(void *block, size_t size);
void *reallocarray(void *block, size_t count, size_t size);
void free(void *block);
void *aligned_alloc(size_t align, size_t size);
void *memalign(size_t align, size_t size);
void *valloc(size_t size);
int posix_memalign(void **place, size_t align, size_t size);

int atoi(const char *text);
long atol(const char *text);
long long atoll(const char *text);
double atof(const char *text);
long strtol(const char *text, char **end, int base);
unsigned long strtoul(const char *text, char **end, int base);
long long strtoll(const char *text, char **end, int base);
unsigned long long strtoull(const char *text, char **end, int base);
double strtod(const char *text, char **end);
float strtof(const char *text, char **end);
long double strtold(const char *text, char **end);
double strtod_l(const char *text, char **end, locale_t locale);
float strtof_l(const char *text, char **end, locale_t locale);
long double strtold_l(const char *text, char **end, locale_t locale);

int abs(int value);
long labs(long value);
long long llabs(long long value);
div_t div(int number, int by);
ldiv_t ldiv(long number, long by);
lldiv_t lldiv(long long number, long long by);

void qsort(void *start, size_t count, size_t size, int (*compare)(const void *, const void *));
void qsort_r(void *start, size_t count, size_t size,
             int (*compare)(const void *, const void *, void *), void *context);
void *bsearch(const void *key, const void *start, size_t count, size_t size,
              int (*compare)(const void *, const void *));
int rand(void);
void srand(unsigned seed);
int rand_r(unsigned *seed);
long random(void);
void srandom(unsigned seed);
unsigned arc4random(void);
unsigned arc4random_uniform(unsigned limit);
void arc4random_buf(void *place, size_t size);

double drand48(void);
double erand48(unsigned short seed[3]);
long lrand48(void);
long nrand48(unsigned short seed[3]);
long mrand48(void);
long jrand48(unsigned short seed[3]);
void srand48(long seed);
unsigned short *seed48(unsigned short seed[3]);
void lcong48(unsigned short parameters[7]);

int mblen(const char *text, size_t limit);
int mbtowc(wchar_t *place, const char *text, size_t limit);
int wctomb(char *place, wchar_t c);
size_t mbstowcs(wchar_t *place, const char *text, size_t limit);
size_t wcstombs(char *place, const wchar_t *text, size_t limit);

int mkstemp(char *path);
int mkostemp(char *path, int flags);
/* As mkstemp; the name goes on for `behind` bytes after the six letters. */
int mkstemps(char *path, int behind);
int mkostemps(char *path, int behind, int flags);

/* The next option of a list like "ro,size=12": its place among the names, or -1. */
int getsubopt(char **rest, char *const *names, char **value);

char *mkdtemp(char *path);
char *getenv(const char *name);
char *secure_getenv(const char *name);
int setenv(const char *name, const char *value, int overwrite);
int unsetenv(const char *name);
int putenv(char *text);
int clearenv(void);

_Noreturn void exit(int status);
_Noreturn void _Exit(int status);
_Noreturn void abort(void);
int atexit(void (*handler)(void));
int at_quick_exit(void (*handler)(void));
_Noreturn void quick_exit(int status);
/* The loads are unknown: -1. */
int getloadavg(double loads[], int count);
int system(const char *command);
char *realpath(const char *path, char *place);
__END_DECLS
#endif
