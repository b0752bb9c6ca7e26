/* Groups. There is no list of them: root is the only one with a name. A process has one. */
#ifndef _GRP_H
#define _GRP_H
#include <sys/types.h>

struct group {
    char *gr_name;
    char *gr_passwd;
    gid_t gr_gid;
    char **gr_mem;
};

__BEGIN_DECLS
struct group *getgrgid(gid_t group);
struct group *getgrent(void);
void setgrent(void);
void endgrent(void);
struct group *getgrnam(const char *name);
int getgrgid_r(gid_t group, struct group *place, char *buffer, size_t size, struct group **found);
int getgrnam_r(const char *name, struct group *place, char *buffer, size_t size,
               struct group **found);
int initgroups(const char *user, gid_t group);
int setgroups(size_t count, const gid_t *groups);
__END_DECLS
#endif
