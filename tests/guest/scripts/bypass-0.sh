# Two nodes: `scif-bypass` on node 0 against `scif-peer` on node 1 (bypass-1.sh).

failed=0
scif-bypass 1 || failed=1
scif-peer quit 1 || failed=1
exit "$failed"
