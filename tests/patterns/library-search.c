/* Hash tables, trees, arrays, lists, and sorting with a context. */
#include "library.h"

#include <search.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/queue.h>

static void tables(void) {
    CHECK(!hsearch((ENTRY){ "a", NULL }, FIND) && errno == EINVAL);
    CHECK(hcreate(3) == 1 && hcreate(3) == 0);
    ENTRY *a = hsearch((ENTRY){ "a", (void *)1 }, ENTER);
    CHECK(a && a->data == (void *)1 && hsearch((ENTRY){ "a", (void *)2 }, ENTER) == a && a->data == (void *)1);
    CHECK(hsearch((ENTRY){ "b", NULL }, ENTER) && hsearch((ENTRY){ "c", NULL }, ENTER));
    a->data = (void *)3;
    CHECK(hsearch((ENTRY){ "a", NULL }, FIND) == a && a->data == (void *)3);
    CHECK(!hsearch((ENTRY){ "d", NULL }, FIND) && errno == ESRCH);
    /* The size is an estimate. */
    CHECK(hsearch((ENTRY){ "d", NULL }, ENTER) && hsearch((ENTRY){ "d", NULL }, FIND));
    hdestroy();
    CHECK(hcreate(1) == 1 && !hsearch((ENTRY){ "a", NULL }, FIND));
    hdestroy();

    struct hsearch_data one = { 0 }, other = { 0 };
    ENTRY *found = NULL;
    CHECK(hcreate_r(9, &one) == 1 && hcreate_r(9, &other) == 1 && hcreate_r(9, &one) == 0);
    CHECK(hsearch_r((ENTRY){ "a", (void *)1 }, ENTER, &found, &one) == 1 && found && found->data == (void *)1);
    CHECK(hsearch_r((ENTRY){ "a", NULL }, FIND, &found, &other) == 0 && !found && errno == ESRCH);
    hdestroy_r(&one);
    hdestroy_r(&other);
    CHECK(hcreate_r(9, &one) == 1);
    hdestroy_r(&one);
}

static int by_number(const void *one, const void *other) {
    intptr_t a = (intptr_t)one, b = (intptr_t)other;
    return (a > b) - (a < b);
}

static intptr_t last, deepest, visited;
static int disordered;

static void check_order(const void *node, VISIT visit, int level) {
    if (level > deepest) deepest = level;
    if (visit != postorder && visit != leaf) return;
    intptr_t key = *(const intptr_t *)node;
    disordered += key <= last;
    last = key;
    visited++;
}

static void count_node(const void *node, VISIT visit, void *count) {
    (void)node;
    if (visit == postorder || visit == leaf) ++*(int *)count;
}

static long ended;
static void end_key(void *key) {
    ended += (intptr_t)key;
}

/* The order is that of the keys, and the tree is as flat as a balanced one of so many nodes is. */
static void check_tree(const void *root, int nodes, int levels) {
    last = deepest = visited = 0;
    twalk(root, check_order);
    CHECK(visited == nodes && !disordered && deepest < levels);
}

static void trees(void) {
    void *root = NULL;
    enum { NODES = 1000 };
    /* Keys in order are the worst case of a tree without balance. */
    for (intptr_t key = 1; key <= NODES; key++) {
        void *node = tsearch((void *)key, &root, by_number);
        CHECK(node && *(intptr_t *)node == key);
    }
    check_tree(root, NODES, 15);
    void *node = tsearch((void *)500, &root, by_number);
    CHECK(node && node == tfind((void *)500, &root, by_number) && *(intptr_t *)node == 500);
    CHECK(!tfind((void *)(NODES + 1), &root, by_number) && !tdelete((void *)(NODES + 1), &root, by_number));
    for (intptr_t key = 1; key <= NODES; key += 3) CHECK(tdelete((void *)key, &root, by_number));
    for (intptr_t key = NODES; key > NODES / 2; key--) tdelete((void *)key, &root, by_number);
    /* A node stays at its place while others go. */
    CHECK(node == tfind((void *)500, &root, by_number) && *(intptr_t *)node == 500);
    check_tree(root, 333, 12);
    int count = 0;
    twalk_r(root, count_node, &count);
    CHECK(count == 333);
    long sum = 0;
    for (long key = 1; key <= NODES / 2; key++) sum += key % 3 == 1 ? 0 : key;
    tdestroy(root, end_key);
    CHECK(ended == sum);

    root = NULL;
    CHECK(!tfind((void *)1, &root, by_number) && !tdelete((void *)1, &root, by_number));
    CHECK(!tsearch((void *)1, NULL, by_number) && !tfind((void *)1, NULL, by_number));
    tsearch((void *)1, &root, by_number);
    CHECK(tdelete((void *)1, &root, by_number) && !root);
}

static int by_value(const void *one, const void *other) {
    return *(const int *)one - *(const int *)other;
}

static void arrays(void) {
    int numbers[4] = { 5, 3, 9 };
    size_t count = 3;
    int wanted = 3, missing = 7;
    CHECK(lfind(&wanted, numbers, &count, sizeof(int), by_value) == &numbers[1]);
    CHECK(!lfind(&missing, numbers, &count, sizeof(int), by_value));
    CHECK(lsearch(&wanted, numbers, &count, sizeof(int), by_value) == &numbers[1] && count == 3);
    CHECK(lsearch(&missing, numbers, &count, sizeof(int), by_value) == &numbers[3] && count == 4 && numbers[3] == 7);
}

struct element {
    struct element *next, *previous;
};

static void lists(void) {
    struct element a, b, c;
    insque(&a, NULL);
    insque(&c, &a);
    insque(&b, &a);
    CHECK(!a.previous && a.next == &b && b.next == &c && !c.next && c.previous == &b && b.previous == &a);
    remque(&b);
    CHECK(a.next == &c && c.previous == &a);
    remque(&c);
    CHECK(!a.next);
}

struct item {
    int number;
    SLIST_ENTRY(item) single;
    LIST_ENTRY(item) both;
    STAILQ_ENTRY(item) queue;
    TAILQ_ENTRY(item) tail;
};
SLIST_HEAD(singles, item);
LIST_HEAD(boths, item);
STAILQ_HEAD(queues, item);
TAILQ_HEAD(tails, item);

/* The numbers of a list as digits. */
#define NUMBERS(kind, head, field) ({                                      \
    long numbers_ = 0;                                                     \
    struct item *item_;                                                    \
    kind##_FOREACH(item_, head, field) numbers_ = numbers_ * 10 + item_->number; \
    numbers_;                                                              \
})

static void linked(void) {
    struct item items[6], *item, *next;
    for (int i = 0; i < 6; i++) items[i].number = i;

    struct singles single = SLIST_HEAD_INITIALIZER(single);
    CHECK(SLIST_EMPTY(&single));
    SLIST_INSERT_HEAD(&single, &items[1], single);
    SLIST_INSERT_AFTER(&items[1], &items[3], single);
    SLIST_INSERT_AFTER(&items[1], &items[2], single);
    SLIST_INSERT_HEAD(&single, &items[4], single);
    CHECK(NUMBERS(SLIST, &single, single) == 4123);
    SLIST_REMOVE(&single, &items[2], item, single);
    SLIST_REMOVE_AFTER(&items[1], single);
    SLIST_REMOVE_HEAD(&single, single);
    CHECK(NUMBERS(SLIST, &single, single) == 1);
    SLIST_FOREACH_SAFE(item, &single, single, next) SLIST_REMOVE(&single, item, item, single);
    CHECK(SLIST_EMPTY(&single));

    struct boths both;
    LIST_INIT(&both);
    LIST_INSERT_HEAD(&both, &items[2], both);
    LIST_INSERT_BEFORE(&items[2], &items[1], both);
    LIST_INSERT_AFTER(&items[2], &items[3], both);
    LIST_INSERT_HEAD(&both, &items[5], both);
    CHECK(NUMBERS(LIST, &both, both) == 5123);
    LIST_REMOVE(&items[1], both);
    LIST_REMOVE(&items[5], both);
    LIST_REMOVE(&items[3], both);
    CHECK(NUMBERS(LIST, &both, both) == 2 && LIST_NEXT(&items[2], both) == NULL);

    struct queues queue = STAILQ_HEAD_INITIALIZER(queue), more;
    STAILQ_INIT(&more);
    STAILQ_INSERT_TAIL(&queue, &items[2], queue);
    STAILQ_INSERT_HEAD(&queue, &items[1], queue);
    STAILQ_INSERT_AFTER(&queue, &items[2], &items[3], queue);
    STAILQ_INSERT_TAIL(&queue, &items[4], queue);
    CHECK(NUMBERS(STAILQ, &queue, queue) == 1234);
    STAILQ_REMOVE(&queue, &items[4], item, queue);
    STAILQ_INSERT_TAIL(&queue, &items[5], queue);
    STAILQ_REMOVE_AFTER(&queue, &items[1], queue);
    CHECK(NUMBERS(STAILQ, &queue, queue) == 135);
    STAILQ_INSERT_TAIL(&more, &items[2], queue);
    STAILQ_CONCAT(&queue, &more);
    STAILQ_INSERT_TAIL(&queue, &items[4], queue);
    CHECK(NUMBERS(STAILQ, &queue, queue) == 13524 && STAILQ_EMPTY(&more));
    while (!STAILQ_EMPTY(&queue)) STAILQ_REMOVE_HEAD(&queue, queue);
    STAILQ_INSERT_TAIL(&queue, &items[1], queue);
    CHECK(NUMBERS(STAILQ, &queue, queue) == 1);

    struct tails tail = TAILQ_HEAD_INITIALIZER(tail), rest;
    TAILQ_INIT(&rest);
    CHECK(TAILQ_EMPTY(&tail) && TAILQ_LAST(&tail, tails) == NULL);
    TAILQ_INSERT_TAIL(&tail, &items[2], tail);
    TAILQ_INSERT_HEAD(&tail, &items[1], tail);
    TAILQ_INSERT_AFTER(&tail, &items[2], &items[4], tail);
    TAILQ_INSERT_BEFORE(&items[4], &items[3], tail);
    CHECK(NUMBERS(TAILQ, &tail, tail) == 1234 && TAILQ_LAST(&tail, tails) == &items[4]);
    long backwards = 0;
    TAILQ_FOREACH_REVERSE(item, &tail, tails, tail) backwards = backwards * 10 + item->number;
    CHECK(backwards == 4321 && TAILQ_PREV(&items[1], tails, tail) == NULL);
    TAILQ_REPLACE(&tail, &items[4], &items[5], tail);
    TAILQ_REMOVE(&tail, &items[2], tail);
    CHECK(NUMBERS(TAILQ, &tail, tail) == 135 && TAILQ_PREV(&items[3], tails, tail) == &items[1]);
    TAILQ_INSERT_TAIL(&rest, &items[2], tail);
    TAILQ_CONCAT(&tail, &rest, tail);
    CHECK(NUMBERS(TAILQ, &tail, tail) == 1352 && TAILQ_LAST(&tail, tails) == &items[2] && TAILQ_EMPTY(&rest));
    TAILQ_FOREACH_SAFE(item, &tail, tail, next) TAILQ_REMOVE(&tail, item, tail);
    CHECK(TAILQ_EMPTY(&tail) && TAILQ_LAST(&tail, tails) == NULL);
}

static int by_table(const void *one, const void *other, void *table) {
    const int *order = table;
    return order[*(const int *)one] - order[*(const int *)other];
}

static void sorting(void) {
    int order[] = { 30, 10, 40, 20 }, numbers[] = { 0, 1, 2, 3 };
    qsort_r(numbers, 4, sizeof(int), by_table, order);
    CHECK(numbers[0] == 1 && numbers[1] == 3 && numbers[2] == 0 && numbers[3] == 2);
}

int main(void) {
    linked();
    sorting();
    tables();
    trees();
    arrays();
    lists();
    return finish("search");
}
