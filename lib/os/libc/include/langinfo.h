/* What the locale, "C", says of itself. */
#ifndef _LANGINFO_H
#define _LANGINFO_H
#include <locale.h>

typedef int nl_item;

#define CODESET 0
#define RADIXCHAR 1
#define THOUSEP 2
#define YESEXPR 3
#define NOEXPR 4
#define CRNCYSTR 5
#define D_T_FMT 6
#define D_FMT 7
#define T_FMT 8
#define T_FMT_AMPM 9
#define AM_STR 10
#define PM_STR 11
#define ERA 12
#define DAY_1 13
#define DAY_2 14
#define DAY_3 15
#define DAY_4 16
#define DAY_5 17
#define DAY_6 18
#define DAY_7 19
#define ABDAY_1 20
#define ABDAY_2 21
#define ABDAY_3 22
#define ABDAY_4 23
#define ABDAY_5 24
#define ABDAY_6 25
#define ABDAY_7 26
#define MON_1 27
#define MON_2 28
#define MON_3 29
#define MON_4 30
#define MON_5 31
#define MON_6 32
#define MON_7 33
#define MON_8 34
#define MON_9 35
#define MON_10 36
#define MON_11 37
#define MON_12 38
#define ABMON_1 39
#define ABMON_2 40
#define ABMON_3 41
#define ABMON_4 42
#define ABMON_5 43
#define ABMON_6 44
#define ABMON_7 45
#define ABMON_8 46
#define ABMON_9 47
#define ABMON_10 48
#define ABMON_11 49
#define ABMON_12 50

__BEGIN_DECLS
char *nl_langinfo(nl_item item);
char *nl_langinfo_l(nl_item item, locale_t locale);
__END_DECLS
#endif
