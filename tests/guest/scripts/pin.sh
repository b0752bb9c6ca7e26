# Memory pinned where it is, and the calls for other drivers, on one node.

failed=0
scif-pin || failed=1
cat /scheme/scifpin/ranges
scifctl stats
exit "$failed"
