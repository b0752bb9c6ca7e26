# The usage patterns between two nodes: the calling sides.

failed=0
for program in messages files connections windows pinning beside lengths ioctl posted; do
    pattern-$program call 1 || failed=1
done
pattern-pinning-clang call 1 || failed=1
exit "$failed"
