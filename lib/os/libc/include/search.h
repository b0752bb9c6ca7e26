/* A hash table, balanced binary trees, arrays that are looked through, and lists. */
#ifndef _SEARCH_H
#define _SEARCH_H
#include <features.h>
#include <stddef.h>

typedef enum { FIND, ENTER } ACTION;
typedef struct entry {
    char *key;
    void *data;
} ENTRY;
/* To be zero before the first hcreate_r. */
struct hsearch_data {
    void *__table;
};
typedef enum { preorder, postorder, endorder, leaf } VISIT;
/* What an element of a list begins with. */
struct qelem {
    struct qelem *q_forw, *q_back;
    char q_data[1];
};

__BEGIN_DECLS
int hcreate(size_t size);
void hdestroy(void);
ENTRY *hsearch(ENTRY entry, ACTION action);
int hcreate_r(size_t size, struct hsearch_data *table);
void hdestroy_r(struct hsearch_data *table);
int hsearch_r(ENTRY entry, ACTION action, ENTRY **result, struct hsearch_data *table);

void *tsearch(const void *key, void **root, int (*compare)(const void *, const void *));
void *tfind(const void *key, void *const *root, int (*compare)(const void *, const void *));
void *tdelete(const void *key, void **root, int (*compare)(const void *, const void *));
void twalk(const void *root, void (*action)(const void *node, VISIT visit, int level));
void twalk_r(const void *root, void (*action)(const void *node, VISIT visit, void *closure), void *closure);
void tdestroy(void *root, void (*end)(void *key));

void *lfind(const void *key, const void *start, size_t *count, size_t size, int (*compare)(const void *, const void *));
void *lsearch(const void *key, void *start, size_t *count, size_t size, int (*compare)(const void *, const void *));

void insque(void *element, void *behind);
void remque(void *element);
__END_DECLS
#endif
