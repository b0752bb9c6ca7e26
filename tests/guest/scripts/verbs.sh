# RDMA verbs within one node; the victim dies.

failed=0
verbs-test own || failed=1
verbs-test serve &
server=$!
verbs-test victim &
victim=$!
verbs-test 0 || failed=1
wait "$server" || failed=1
wait "$victim"
exit "$failed"
