/* Names in directories. */
#ifndef _DIRENT_H
#define _DIRENT_H
#include <sys/types.h>

/* Names in directories here are DT_DIR, DT_REG or DT_UNKNOWN. */
#define DT_UNKNOWN 0
#define DT_FIFO 1
#define DT_CHR 2
#define DT_DIR 4
#define DT_BLK 6
#define DT_REG 8
#define DT_LNK 10
#define DT_SOCK 12
#define DT_WHT 14
#define IFTODT(mode) (((mode) & 0170000) >> 12)
#define DTTOIF(kind) ((kind) << 12)

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
/* The next entry is stored in `entry`, whose address goes to `found`; NULL at the end. 0 or an error number. */
int readdir_r(DIR *directory, struct dirent *entry, struct dirent **found);
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
