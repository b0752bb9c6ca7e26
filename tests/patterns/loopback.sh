# The C programs of the usage patterns, both sides on one node.

failed=0
for program in messages files connections windows pinning beside lengths ioctl posted limits; do
    pattern-$program || failed=1
done
scifctl stats
exit "$failed"
