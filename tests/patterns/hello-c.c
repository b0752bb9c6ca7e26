/* The smallest program of its kind: its size and start are measured beside those of other kinds. */
#include <stdio.h>

int main(void) {
    puts("hello");
    return 0;
}
