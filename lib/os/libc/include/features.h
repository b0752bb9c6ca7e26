/* What every header of this library begins with: C++ linkage and the marks compilers check by. */
#ifndef _FEATURES_H
#define _FEATURES_H

#ifdef __cplusplus
#define __BEGIN_DECLS extern "C" {
#define __END_DECLS }
#define __restrict_ptr
#define _Noreturn [[noreturn]]
#else
#define __BEGIN_DECLS
#define __END_DECLS
#define __restrict_ptr restrict
#endif

/* Of the C library that most programs for Linux are written with. */
#ifndef __always_inline
#define __always_inline inline __attribute__((__always_inline__))
#endif
#ifndef __THROW
#ifdef __cplusplus
#define __THROW noexcept(true)
#else
#define __THROW __attribute__((__nothrow__))
#endif
#endif

#define __printf_like(format, first) __attribute__((__format__(__printf__, format, first)))
#define __scanf_like(format, first) __attribute__((__format__(__scanf__, format, first)))

#endif
