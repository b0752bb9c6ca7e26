/* Diagnostics. May be included several times, with and without NDEBUG. */
#include <features.h>

#undef assert
#ifdef NDEBUG
#define assert(expression) ((void)0)
#else
#define assert(expression) \
    ((expression) ? (void)0 : __assert_fail(#expression, __FILE__, __LINE__, __func__))
#endif

#ifndef _ASSERT_H
#define _ASSERT_H
#if !defined(__cplusplus) && !defined(static_assert)
#define static_assert _Static_assert
#endif
__BEGIN_DECLS
_Noreturn void __assert_fail(const char *expression, const char *file, unsigned line,
                             const char *function);
__END_DECLS
#endif
