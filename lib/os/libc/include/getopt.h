/* Options of the command line. They end at the first argument that is none. */
#ifndef _GETOPT_H
#define _GETOPT_H
#include <features.h>

#define no_argument 0
#define required_argument 1
#define optional_argument 2

struct option {
    const char *name;
    int has_arg;
    int *flag;
    int val;
};

__BEGIN_DECLS
extern char *optarg;
extern int optind, opterr, optopt;
int getopt(int count, char *const arguments[], const char *letters);
int getopt_long(int count, char *const arguments[], const char *letters,
                const struct option *options, int *index);
__END_DECLS
#endif
