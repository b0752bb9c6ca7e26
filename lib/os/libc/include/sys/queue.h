/* Lists whose links lie in the elements: SLIST (single links), LIST (double links), STAILQ (single links, an end to add to) and
   TAILQ (double links, an end). All names and meanings are those of the BSD systems. */
#ifndef _SYS_QUEUE_H
#define _SYS_QUEUE_H

/* SLIST */
#define SLIST_HEAD(name, type) \
    struct name {              \
        struct type *slh_first; \
    }
#define SLIST_HEAD_INITIALIZER(head) { 0 }
#define SLIST_ENTRY(type)      \
    struct {                   \
        struct type *sle_next; \
    }
#define SLIST_INIT(head) ((void)((head)->slh_first = 0))
#define SLIST_EMPTY(head) (!(head)->slh_first)
#define SLIST_FIRST(head) ((head)->slh_first)
#define SLIST_NEXT(element, field) ((element)->field.sle_next)
#define SLIST_FOREACH(place, head, field) \
    for ((place) = SLIST_FIRST(head); (place); (place) = SLIST_NEXT(place, field))
#define SLIST_FOREACH_SAFE(place, head, field, next)                                          \
    for ((place) = SLIST_FIRST(head); (place) && ((next) = SLIST_NEXT(place, field), 1); \
         (place) = (next))
#define SLIST_INSERT_HEAD(head, element, field)                    \
    do {                                                           \
        SLIST_NEXT(element, field) = SLIST_FIRST(head);            \
        SLIST_FIRST(head) = (element);                             \
    } while (0)
#define SLIST_INSERT_AFTER(before, element, field)                 \
    do {                                                           \
        SLIST_NEXT(element, field) = SLIST_NEXT(before, field);    \
        SLIST_NEXT(before, field) = (element);                     \
    } while (0)
#define SLIST_REMOVE_HEAD(head, field) ((void)(SLIST_FIRST(head) = SLIST_NEXT(SLIST_FIRST(head), field)))
#define SLIST_REMOVE_AFTER(before, field) \
    ((void)(SLIST_NEXT(before, field) = SLIST_NEXT(SLIST_NEXT(before, field), field)))
#define SLIST_REMOVE(head, element, type, field)                   \
    do {                                                           \
        struct type **slist_at = &SLIST_FIRST(head);               \
        while (*slist_at != (element))                             \
            slist_at = &SLIST_NEXT(*slist_at, field);              \
        *slist_at = SLIST_NEXT(element, field);                    \
    } while (0)

/* LIST */
#define LIST_HEAD(name, type) \
    struct name {             \
        struct type *lh_first; \
    }
#define LIST_HEAD_INITIALIZER(head) { 0 }
/* le_prev: what leads to the element. */
#define LIST_ENTRY(type)       \
    struct {                   \
        struct type *le_next;  \
        struct type **le_prev; \
    }
#define LIST_INIT(head) ((void)((head)->lh_first = 0))
#define LIST_EMPTY(head) (!(head)->lh_first)
#define LIST_FIRST(head) ((head)->lh_first)
#define LIST_NEXT(element, field) ((element)->field.le_next)
#define LIST_FOREACH(place, head, field) \
    for ((place) = LIST_FIRST(head); (place); (place) = LIST_NEXT(place, field))
#define LIST_FOREACH_SAFE(place, head, field, next)                                         \
    for ((place) = LIST_FIRST(head); (place) && ((next) = LIST_NEXT(place, field), 1); \
         (place) = (next))
#define LIST_LINK_AT(at, element, field)                                                    \
    do {                                                                                    \
        if ((LIST_NEXT(element, field) = *(at)) != 0)                                       \
            LIST_NEXT(element, field)->field.le_prev = &LIST_NEXT(element, field);          \
        *(at) = (element);                                                                  \
        (element)->field.le_prev = (at);                                                    \
    } while (0)
#define LIST_INSERT_HEAD(head, element, field) LIST_LINK_AT(&LIST_FIRST(head), element, field)
#define LIST_INSERT_AFTER(before, element, field) LIST_LINK_AT(&LIST_NEXT(before, field), element, field)
#define LIST_INSERT_BEFORE(behind, element, field)                                          \
    do {                                                                                    \
        (element)->field.le_prev = (behind)->field.le_prev;                                 \
        LIST_NEXT(element, field) = (behind);                                               \
        *(behind)->field.le_prev = (element);                                               \
        (behind)->field.le_prev = &LIST_NEXT(element, field);                               \
    } while (0)
#define LIST_REMOVE(element, field)                                                         \
    do {                                                                                    \
        if (LIST_NEXT(element, field))                                                      \
            LIST_NEXT(element, field)->field.le_prev = (element)->field.le_prev;            \
        *(element)->field.le_prev = LIST_NEXT(element, field);                              \
    } while (0)

/* STAILQ */
#define STAILQ_HEAD(name, type)   \
    struct name {                 \
        struct type *stqh_first;  \
        struct type **stqh_last;  \
    }
#define STAILQ_HEAD_INITIALIZER(head) { 0, &(head).stqh_first }
#define STAILQ_ENTRY(type)      \
    struct {                    \
        struct type *stqe_next; \
    }
#define STAILQ_INIT(head) ((void)((head)->stqh_first = 0, (head)->stqh_last = &(head)->stqh_first))
#define STAILQ_EMPTY(head) (!(head)->stqh_first)
#define STAILQ_FIRST(head) ((head)->stqh_first)
#define STAILQ_NEXT(element, field) ((element)->field.stqe_next)
#define STAILQ_FOREACH(place, head, field) \
    for ((place) = STAILQ_FIRST(head); (place); (place) = STAILQ_NEXT(place, field))
#define STAILQ_FOREACH_SAFE(place, head, field, next)                                           \
    for ((place) = STAILQ_FIRST(head); (place) && ((next) = STAILQ_NEXT(place, field), 1); \
         (place) = (next))
#define STAILQ_INSERT_HEAD(head, element, field)                                            \
    do {                                                                                    \
        if (!(STAILQ_NEXT(element, field) = STAILQ_FIRST(head)))                            \
            (head)->stqh_last = &STAILQ_NEXT(element, field);                               \
        STAILQ_FIRST(head) = (element);                                                     \
    } while (0)
#define STAILQ_INSERT_TAIL(head, element, field)                                            \
    do {                                                                                    \
        STAILQ_NEXT(element, field) = 0;                                                    \
        *(head)->stqh_last = (element);                                                     \
        (head)->stqh_last = &STAILQ_NEXT(element, field);                                   \
    } while (0)
#define STAILQ_INSERT_AFTER(head, before, element, field)                                   \
    do {                                                                                    \
        if (!(STAILQ_NEXT(element, field) = STAILQ_NEXT(before, field)))                    \
            (head)->stqh_last = &STAILQ_NEXT(element, field);                               \
        STAILQ_NEXT(before, field) = (element);                                             \
    } while (0)
#define STAILQ_REMOVE_HEAD(head, field)                                                     \
    do {                                                                                    \
        if (!(STAILQ_FIRST(head) = STAILQ_NEXT(STAILQ_FIRST(head), field)))                 \
            (head)->stqh_last = &STAILQ_FIRST(head);                                        \
    } while (0)
#define STAILQ_REMOVE_AFTER(head, before, field)                                            \
    do {                                                                                    \
        if (!(STAILQ_NEXT(before, field) = STAILQ_NEXT(STAILQ_NEXT(before, field), field))) \
            (head)->stqh_last = &STAILQ_NEXT(before, field);                                \
    } while (0)
#define STAILQ_REMOVE(head, element, type, field)                                           \
    do {                                                                                    \
        struct type **stailq_at = &STAILQ_FIRST(head);                                      \
        while (*stailq_at != (element))                                                     \
            stailq_at = &STAILQ_NEXT(*stailq_at, field);                                    \
        if (!(*stailq_at = STAILQ_NEXT(element, field)))                                    \
            (head)->stqh_last = stailq_at;                                                  \
    } while (0)
#define STAILQ_CONCAT(to, from)                                                             \
    do {                                                                                    \
        if (!STAILQ_EMPTY(from)) {                                                          \
            *(to)->stqh_last = STAILQ_FIRST(from);                                          \
            (to)->stqh_last = (from)->stqh_last;                                            \
            STAILQ_INIT(from);                                                              \
        }                                                                                   \
    } while (0)

/* TAILQ. The pair in a head is laid out as the one in an entry, so the element before another one, or the last one, is found by two
   steps back and one forward. */
#define TAILQ_HEAD(name, type)   \
    struct name {                \
        struct type *tqh_first;  \
        struct type **tqh_last;  \
    }
#define TAILQ_HEAD_INITIALIZER(head) { 0, &(head).tqh_first }
#define TAILQ_ENTRY(type)       \
    struct {                    \
        struct type *tqe_next;  \
        struct type **tqe_prev; \
    }
#define TAILQ_INIT(head) ((void)((head)->tqh_first = 0, (head)->tqh_last = &(head)->tqh_first))
#define TAILQ_EMPTY(head) (!(head)->tqh_first)
#define TAILQ_FIRST(head) ((head)->tqh_first)
#define TAILQ_NEXT(element, field) ((element)->field.tqe_next)
#define TAILQ_LAST(head, name) (*((struct name *)(head)->tqh_last)->tqh_last)
#define TAILQ_PREV(element, name, field) (*((struct name *)(element)->field.tqe_prev)->tqh_last)
#define TAILQ_FOREACH(place, head, field) \
    for ((place) = TAILQ_FIRST(head); (place); (place) = TAILQ_NEXT(place, field))
#define TAILQ_FOREACH_SAFE(place, head, field, next)                                          \
    for ((place) = TAILQ_FIRST(head); (place) && ((next) = TAILQ_NEXT(place, field), 1); \
         (place) = (next))
#define TAILQ_FOREACH_REVERSE(place, head, name, field) \
    for ((place) = TAILQ_LAST(head, name); (place); (place) = TAILQ_PREV(place, name, field))
#define TAILQ_FOREACH_REVERSE_SAFE(place, head, name, field, next)                                       \
    for ((place) = TAILQ_LAST(head, name); (place) && ((next) = TAILQ_PREV(place, name, field), 1); \
         (place) = (next))
#define TAILQ_INSERT_HEAD(head, element, field)                                             \
    do {                                                                                    \
        if ((TAILQ_NEXT(element, field) = TAILQ_FIRST(head)) != 0)                          \
            TAILQ_FIRST(head)->field.tqe_prev = &TAILQ_NEXT(element, field);                \
        else                                                                                \
            (head)->tqh_last = &TAILQ_NEXT(element, field);                                 \
        TAILQ_FIRST(head) = (element);                                                      \
        (element)->field.tqe_prev = &TAILQ_FIRST(head);                                     \
    } while (0)
#define TAILQ_INSERT_TAIL(head, element, field)                                             \
    do {                                                                                    \
        TAILQ_NEXT(element, field) = 0;                                                     \
        (element)->field.tqe_prev = (head)->tqh_last;                                       \
        *(head)->tqh_last = (element);                                                      \
        (head)->tqh_last = &TAILQ_NEXT(element, field);                                     \
    } while (0)
#define TAILQ_INSERT_AFTER(head, before, element, field)                                    \
    do {                                                                                    \
        if ((TAILQ_NEXT(element, field) = TAILQ_NEXT(before, field)) != 0)                  \
            TAILQ_NEXT(element, field)->field.tqe_prev = &TAILQ_NEXT(element, field);       \
        else                                                                                \
            (head)->tqh_last = &TAILQ_NEXT(element, field);                                 \
        TAILQ_NEXT(before, field) = (element);                                              \
        (element)->field.tqe_prev = &TAILQ_NEXT(before, field);                             \
    } while (0)
#define TAILQ_INSERT_BEFORE(behind, element, field)                                         \
    do {                                                                                    \
        (element)->field.tqe_prev = (behind)->field.tqe_prev;                               \
        TAILQ_NEXT(element, field) = (behind);                                              \
        *(behind)->field.tqe_prev = (element);                                              \
        (behind)->field.tqe_prev = &TAILQ_NEXT(element, field);                             \
    } while (0)
#define TAILQ_REMOVE(head, element, field)                                                  \
    do {                                                                                    \
        if (TAILQ_NEXT(element, field))                                                     \
            TAILQ_NEXT(element, field)->field.tqe_prev = (element)->field.tqe_prev;         \
        else                                                                                \
            (head)->tqh_last = (element)->field.tqe_prev;                                   \
        *(element)->field.tqe_prev = TAILQ_NEXT(element, field);                            \
    } while (0)
#define TAILQ_REPLACE(head, old, element, field)                                            \
    do {                                                                                    \
        if ((TAILQ_NEXT(element, field) = TAILQ_NEXT(old, field)) != 0)                     \
            TAILQ_NEXT(element, field)->field.tqe_prev = &TAILQ_NEXT(element, field);       \
        else                                                                                \
            (head)->tqh_last = &TAILQ_NEXT(element, field);                                 \
        (element)->field.tqe_prev = (old)->field.tqe_prev;                                  \
        *(element)->field.tqe_prev = (element);                                             \
    } while (0)
#define TAILQ_CONCAT(to, from, field)                                                       \
    do {                                                                                    \
        if (!TAILQ_EMPTY(from)) {                                                           \
            *(to)->tqh_last = TAILQ_FIRST(from);                                            \
            TAILQ_FIRST(from)->field.tqe_prev = (to)->tqh_last;                             \
            (to)->tqh_last = (from)->tqh_last;                                              \
            TAILQ_INIT(from);                                                               \
        }                                                                                   \
    } while (0)

#endif
