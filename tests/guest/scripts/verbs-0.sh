# RDMA verbs between two nodes: the client. The server: verbs-1.sh.

. /scheme/initfs/lib/steps.sh

verbs-test 1 || failed=1
uverbs-data 1 || failed=1
verbs-manager node1
step connections $? "see above"
verbs-manager node1 die
step connections-death $? "see above"
verbs-unconnected node1
step unconnected $? "see above"
verbs-unconnected node1 die
step unconnected-death $? "see above"
# A group of two programs here and two there.
verbs-group-clang member 2073 &
member=$!
verbs-group node1 2072 node1 2074 localhost 2073
step group $? "see above"
wait "$member"
step group-member $? "see above"
until_true verbs-hello node1
step tutorial-c $? "see above"
until_true verbs-first 1
step tutorial-rust $? "see above"
exit "$failed"
