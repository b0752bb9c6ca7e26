# RDMA verbs within one node, in Rust and in C by both compilers; the victim dies.

failed=0
verbs-test own || failed=1
verbs-calls || failed=1
verbs-calls-clang || failed=1
verbs-test serve &
server=$!
verbs-test victim &
victim=$!
verbs-test 0 || failed=1
wait "$server" || failed=1
wait "$victim"
exit "$failed"
