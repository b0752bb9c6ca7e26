/* Names in directories. */
#ifndef _DIRENT_H
#define _DIRENT_H
#include <sys/types.h>

#define DT_UNKNOWN 0
#define DT_DIR 4
#define DT_REG 8

struct dirent {
    ino_t d_ino;
    off_t d_off;
    unsigned short d_reclen;
    unsigned char d_type;
    char d_name[256];
};
typedef struct __skiff_directory DIR;

__BEGIN_DECLS
DIR *opendir(const char *path);
/* Of an open directory; the descriptor is closed by closedir. */
DIR *fdopendir(int descriptor);
int dirfd(DIR *directory);
struct dirent *readdir(DIR *directory);
void rewinddir(DIR *directory);
long telldir(DIR *directory);
void seekdir(DIR *directory, long position);
int closedir(DIR *directory);

/* All entries for which `selects` is not 0 (NULL: all), in the order of `compare` (NULL: any): how many; -1 with errno. The
   caller frees each and the array. */
int scandir(const char *path, struct dirent ***entries, int (*selects)(const struct dirent *),
            int (*compare)(const struct dirent **, const struct dirent **));
/* The order of names. */
int alphasort(const struct dirent **one, const struct dirent **other);
__END_DECLS
#endif
