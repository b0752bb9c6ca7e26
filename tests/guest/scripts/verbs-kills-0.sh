# Programs of RDMA verbs are killed at random moments, on both nodes; nothing is left.

failed=0
verbs-storm 40 1 1 || failed=1
scif-kills idle || failed=1
verbs-storm idle || failed=1
exit "$failed"
