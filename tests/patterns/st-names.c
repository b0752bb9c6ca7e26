/*
 * st_flush and st_fence for a program that declares them itself, as the API's description writes
 * them: two names of one function. st.h is not included, as it gives both names one symbol.
 */
#include <errno.h>
#include <stdio.h>

typedef struct st_peer st_peer_t;
int st_fence(st_peer_t *handle);
int st_flush(st_peer_t *handle);

int main(void) {
    /* Compilers take functions of two names for two functions. */
    int (*volatile fence)(st_peer_t *) = st_fence;
    int (*volatile flush)(st_peer_t *) = st_flush;
    if (fence != flush) {
        fprintf(stderr, "st-names: st_fence is at %p, st_flush at %p\n", (void *)fence,
                (void *)flush);
        return 1;
    }
    if (flush(NULL) != -1 || errno != EINVAL) {
        fprintf(stderr, "st-names: no handle is no error\n");
        return 2;
    }
    return 0;
}
