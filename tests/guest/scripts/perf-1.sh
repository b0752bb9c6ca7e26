# The other node of perf-0.sh: serves both programs until each is told to stop.

failed=0
scif-bare -s || failed=1
scif-perf -s || failed=1
exit "$failed"
