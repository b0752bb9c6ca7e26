/* The size of a page. */
#ifndef _SYS_USER_H
#define _SYS_USER_H
#define PAGE_SHIFT 12
#define PAGE_SIZE (1UL << PAGE_SHIFT)
#define PAGE_MASK (~(PAGE_SIZE - 1))
#endif
