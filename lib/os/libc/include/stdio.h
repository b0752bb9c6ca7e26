/* Streams and formatted text. */
#ifndef _STDIO_H
#define _STDIO_H
#include <features.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/types.h>

typedef struct __skiff_file FILE;
typedef long fpos_t;

#define EOF (-1)
#define BUFSIZ 4096
#define FILENAME_MAX 4096
#define FOPEN_MAX 65536
#define SEEK_SET 0
#define SEEK_CUR 1
#define SEEK_END 2
#define P_tmpdir "/tmp"
#define L_tmpnam 20
#define TMP_MAX 0x7fffffff
#define _IOFBF 0
#define _IOLBF 1
#define _IONBF 2

__BEGIN_DECLS
extern FILE *stdin;
extern FILE *stdout;
extern FILE *stderr;
#define stdin stdin
#define stdout stdout
#define stderr stderr

FILE *fopen(const char *path, const char *mode);
FILE *fdopen(int fd, const char *mode);
FILE *fmemopen(void *block, size_t size, const char *mode);
/* The block, which the caller frees, and its bytes are stored at fflush and fclose. */
FILE *open_memstream(char **block, size_t *length);
FILE *popen(const char *command, const char *mode);
int pclose(FILE *stream);
FILE *freopen(const char *path, const char *mode, FILE *file);
int fclose(FILE *file);
int fflush(FILE *file);
int fileno(FILE *file);
int feof(FILE *file);
int ferror(FILE *file);
void clearerr(FILE *file);
int setvbuf(FILE *file, char *buffer, int mode, size_t size);
void setbuf(FILE *file, char *buffer);
void setbuffer(FILE *file, char *buffer, size_t size);
void setlinebuf(FILE *file);

size_t fread(void *place, size_t size, size_t count, FILE *file);
size_t fwrite(const void *place, size_t size, size_t count, FILE *file);
int fgetc(FILE *file);
int getc(FILE *file);
int getchar(void);
int ungetc(int c, FILE *file);
char *fgets(char *place, int size, FILE *file);
ssize_t getline(char **place, size_t *size, FILE *file);
ssize_t getdelim(char **place, size_t *size, int end, FILE *file);
int fputc(int c, FILE *file);
int putc(int c, FILE *file);
int putchar(int c);
int fputs(const char *text, FILE *file);
int puts(const char *text);
int fseek(FILE *file, long offset, int whence);
int fseeko(FILE *file, off_t offset, int whence);
long ftell(FILE *file);
off_t ftello(FILE *file);
void rewind(FILE *file);
int fgetpos(FILE *file, fpos_t *place);
int fsetpos(FILE *file, const fpos_t *place);
void perror(const char *text);
/* Streams that a thread keeps for several calls. The calls without a lock take it all the same. */
void flockfile(FILE *file);
int ftrylockfile(FILE *file);
void funlockfile(FILE *file);
int getc_unlocked(FILE *file);
int getchar_unlocked(void);
int putc_unlocked(int c, FILE *file);
int putchar_unlocked(int c);
int fgetc_unlocked(FILE *file);
int fputc_unlocked(int c, FILE *file);
int fputs_unlocked(const char *text, FILE *file);
char *fgets_unlocked(char *place, int size, FILE *file);
size_t fread_unlocked(void *place, size_t size, size_t count, FILE *file);
size_t fwrite_unlocked(const void *place, size_t size, size_t count, FILE *file);
int fflush_unlocked(FILE *file);
int feof_unlocked(FILE *file);
int ferror_unlocked(FILE *file);
int fileno_unlocked(FILE *file);
void clearerr_unlocked(FILE *file);
int remove(const char *path);
int rename(const char *from, const char *to);
int renameat(int from_directory, const char *from, int to_directory, const char *to);
#define RENAME_NOREPLACE 1
int renameat2(int from_directory, const char *from, int to_directory, const char *to,
              unsigned flags);
FILE *tmpfile(void);
char *tmpnam(char *place);
char *tempnam(const char *directory, const char *prefix);

int printf(const char *format, ...) __printf_like(1, 2);
int fprintf(FILE *file, const char *format, ...) __printf_like(2, 3);
int dprintf(int fd, const char *format, ...) __printf_like(2, 3);
int sprintf(char *place, const char *format, ...) __printf_like(2, 3);
int snprintf(char *place, size_t size, const char *format, ...) __printf_like(3, 4);
int asprintf(char **place, const char *format, ...) __printf_like(2, 3);
int vprintf(const char *format, va_list list) __printf_like(1, 0);
int vfprintf(FILE *file, const char *format, va_list list) __printf_like(2, 0);
int vdprintf(int fd, const char *format, va_list list) __printf_like(2, 0);
int vsprintf(char *place, const char *format, va_list list) __printf_like(2, 0);
int vsnprintf(char *place, size_t size, const char *format, va_list list) __printf_like(3, 0);
int vasprintf(char **place, const char *format, va_list list) __printf_like(2, 0);

int scanf(const char *format, ...) __scanf_like(1, 2);
int fscanf(FILE *file, const char *format, ...) __scanf_like(2, 3);
int sscanf(const char *text, const char *format, ...) __scanf_like(2, 3);
int vscanf(const char *format, va_list list) __scanf_like(1, 0);
int vfscanf(FILE *file, const char *format, va_list list) __scanf_like(2, 0);
int vsscanf(const char *text, const char *format, va_list list) __scanf_like(2, 0);
__END_DECLS
#endif
