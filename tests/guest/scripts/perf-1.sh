# The other node of perf-0.sh: plays along, then serves until it is told to stop.

failed=0
scif-bare || failed=1
scif-perf -s || failed=1
exit "$failed"
