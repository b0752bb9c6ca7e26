# Two nodes: `scif-direct` on node 0 against `scif-peer` on node 1 (direct-1.sh).

failed=0
scif-direct 1 || failed=1
scif-peer quit 1 || failed=1
exit "$failed"
