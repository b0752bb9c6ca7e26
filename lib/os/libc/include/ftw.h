/* A call for each file under a directory. */
#ifndef _FTW_H
#define _FTW_H
#include <features.h>
#include <sys/stat.h>

#define FTW_F 0
#define FTW_D 1
#define FTW_DNR 2
#define FTW_NS 3
#define FTW_SL 4
#define FTW_DP 5
#define FTW_SLN 6

/* There are no links, so FTW_PHYS changes nothing. */
#define FTW_PHYS 1
#define FTW_MOUNT 2
#define FTW_CHDIR 4
#define FTW_DEPTH 8

struct FTW {
    int base;
    int level;
};

__BEGIN_DECLS
int ftw(const char *path, int (*call)(const char *path, const struct stat *stat, int kind), int descriptors);
int nftw(const char *path, int (*call)(const char *path, const struct stat *stat, int kind, struct FTW *place),
         int descriptors, int flags);
__END_DECLS
#endif
