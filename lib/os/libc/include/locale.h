/* Locales. There is one, "C", whose characters are UTF-8. */
#ifndef _LOCALE_H
#define _LOCALE_H
#include <features.h>
#include <stddef.h>

#define LC_CTYPE 2
#define LC_NUMERIC 5
#define LC_TIME 6
#define LC_COLLATE 1
#define LC_MONETARY 4
#define LC_MESSAGES 3
#define LC_ALL 0

struct lconv {
    char *decimal_point, *thousands_sep, *grouping;
    char *int_curr_symbol, *currency_symbol;
    char *mon_decimal_point, *mon_thousands_sep, *mon_grouping;
    char *positive_sign, *negative_sign;
    char int_frac_digits, frac_digits;
    char p_cs_precedes, p_sep_by_space, n_cs_precedes, n_sep_by_space;
    char p_sign_posn, n_sign_posn;
    char int_p_cs_precedes, int_p_sep_by_space, int_n_cs_precedes, int_n_sep_by_space;
    char int_p_sign_posn, int_n_sign_posn;
};

#define LC_COLLATE_MASK (1 << LC_COLLATE)
#define LC_CTYPE_MASK (1 << LC_CTYPE)
#define LC_MESSAGES_MASK (1 << LC_MESSAGES)
#define LC_MONETARY_MASK (1 << LC_MONETARY)
#define LC_NUMERIC_MASK (1 << LC_NUMERIC)
#define LC_TIME_MASK (1 << LC_TIME)
#define LC_ALL_MASK                                                                            \
    (LC_COLLATE_MASK | LC_CTYPE_MASK | LC_MESSAGES_MASK | LC_MONETARY_MASK | LC_NUMERIC_MASK | \
     LC_TIME_MASK)
#define LC_GLOBAL_LOCALE ((locale_t)-1)

typedef struct __skiff_locale *locale_t;

__BEGIN_DECLS
char *setlocale(int category, const char *name);
struct lconv *localeconv(void);
locale_t newlocale(int mask, const char *name, locale_t base);
locale_t duplocale(locale_t locale);
locale_t uselocale(locale_t locale);
void freelocale(locale_t locale);
__END_DECLS
#endif
