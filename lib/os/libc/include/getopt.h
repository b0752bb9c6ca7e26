/* Options of the command line. As with glibc, operands before an option are moved behind it; letters that begin with '+' end the
   options at the first operand, letters that begin with '-' give each operand as the argument of option 1. */
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
int getopt_long_only(int count, char *const arguments[], const char *letters,
                     const struct option *options, int *index);
__END_DECLS
#endif
