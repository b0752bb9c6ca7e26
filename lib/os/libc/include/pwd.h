/* Users. There is no list of them: root is the only one with a name. */
#ifndef _PWD_H
#define _PWD_H
#include <sys/types.h>

struct passwd {
    char *pw_name;
    char *pw_passwd;
    uid_t pw_uid;
    gid_t pw_gid;
    char *pw_gecos;
    char *pw_dir;
    char *pw_shell;
};

__BEGIN_DECLS
struct passwd *getpwuid(uid_t user);
struct passwd *getpwent(void);
void setpwent(void);
void endpwent(void);
struct passwd *getpwnam(const char *name);
int getpwuid_r(uid_t user, struct passwd *place, char *buffer, size_t size, struct passwd **found);
int getpwnam_r(const char *name, struct passwd *place, char *buffer, size_t size,
               struct passwd **found);
__END_DECLS
#endif
