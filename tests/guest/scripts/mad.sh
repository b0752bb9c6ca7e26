# Management datagrams on one node: files, agents, and the tool that shows the fabric.

failed=0
mad-test || failed=1
mad-test hostile || failed=1
umad-calls || failed=1
umad-calls-clang || failed=1
cat /scheme/infiniband/fabric || failed=1
cat /scheme/infiniband/agents || failed=1
madctl || failed=1
madctl svg || failed=1
madctl ping 1 2 || failed=1
madctl counters 1 || failed=1
! madctl ping 99 1 || failed=1
exit "$failed"
