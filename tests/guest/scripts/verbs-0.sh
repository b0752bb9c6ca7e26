# RDMA verbs between two nodes: the client. The server: verbs-1.sh.

failed=0
verbs-test 1 || failed=1
exit "$failed"
