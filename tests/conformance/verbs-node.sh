# The rows of RDMA verbs in one node: B beside A.

verbs-conformance node b &
b=$!
failed=0
verbs-conformance node 0 || failed=1
wait "$b" || failed=1
exit "$failed"
