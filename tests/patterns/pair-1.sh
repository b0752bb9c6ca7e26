# The usage patterns between two nodes: the serving sides.

for program in messages files connections windows pinning beside lengths ioctl posted; do
    pattern-$program serve || exit
done
pattern-pinning-clang serve
