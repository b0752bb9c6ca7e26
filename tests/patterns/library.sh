# The C library and what programs expect of the headers, by both compilers, in C and in C++; and the
# usage patterns in one node once more, by the second compiler.

failed=0
for compiler in '' -clang; do
    for part in math generic details calls streams strings text names expressions search machine threads cancel alarm timers fork exec epoll uverbs wide system posix additions locks segments sharing signals edges; do
        library-$part$compiler || failed=1
    done
    interpose$compiler || failed=1
    user-header$compiler || failed=1
    plusplus$compiler || failed=1
done
for program in messages files connections windows lengths ioctl posted limits; do
    pattern-$program-clang || failed=1
done
exit "$failed"
