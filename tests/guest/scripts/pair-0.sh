# Two nodes: the tests run on node 0 against `scif-peer` on node 1 (pair-1.sh).

failed=0
scif-stream 1 || failed=1
scif-errors 1 || failed=1
scif-churn 1 || failed=1
scif-kill 1 || failed=1
scif-pingpong 1 || failed=1
scif-atomic 1 || failed=1
scifctl
scifctl stats
scif-peer quit 1 || failed=1
exit "$failed"
