# Registered memory between two nodes: the tests run here, `scif-peer` serves on node 1.

failed=0
scif-windows 1 || failed=1
scifctl stats
scif-peer quit 1 || failed=1
exit "$failed"
