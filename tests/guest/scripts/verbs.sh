# RDMA verbs within one node, in Rust and in C by both compilers; the victim dies.

. /scheme/initfs/lib/steps.sh

# It waits for more than a minute.
verbs-silent &
silent=$!
verbs-test own || failed=1
verbs-calls || failed=1
verbs-calls-clang || failed=1
verbs-extended || failed=1
verbs-extended-clang || failed=1
verbs-requests || failed=1
verbs-requests-clang || failed=1
verbs-ids || failed=1
verbs-ids-clang || failed=1
verbs-frames || failed=1
verbs-frames-clang || failed=1
verbs-fork || failed=1
verbs-fork-clang || failed=1
verbs-rules || failed=1
verbs-rules-clang || failed=1
verbs-names || failed=1
verbs-names-clang || failed=1
rdma-ends || failed=1
rdma-ends-clang || failed=1
verbs-test serve &
server=$!
verbs-test victim &
victim=$!
verbs-test 0 || failed=1
wait "$server" || failed=1
# The death of the drivers would end it.
wait "$silent"
step silent-peers $? "see above"
verbs-test daemon || failed=1
# Connections by address, as programs for librdmacm make them, and the tutorials.
for compiler in "" -clang; do
    "verbs-manager$compiler" serve &
    server=$!
    "verbs-manager$compiler" localhost
    step "connections$compiler" $? "see above"
    wait "$server"
    step "connections-server$compiler" $? "see above"
    "verbs-manager$compiler" serve &
    server=$!
    "verbs-manager$compiler" localhost die
    step "connections-death$compiler" $? "see above"
    wait "$server"
    step "connections-death-server$compiler" $? "see above"
    "verbs-unconnected$compiler" serve &
    server=$!
    "verbs-unconnected$compiler" localhost
    step "unconnected$compiler" $? "see above"
    wait "$server"
    step "unconnected-server$compiler" $? "see above"
    "verbs-unconnected$compiler" serve &
    server=$!
    "verbs-unconnected$compiler" localhost die
    step "unconnected-death$compiler" $? "see above"
    wait "$server"
    step "unconnected-death-server$compiler" $? "see above"
done
# A group of three programs.
verbs-group member 2072 &
first=$!
verbs-group-clang member 2073 &
second=$!
verbs-group localhost 2072 localhost 2073
step group $? "see above"
wait "$first"
step group-member $? "see above"
wait "$second"
step group-member-clang $? "see above"
verbs-hello &
server=$!
until_true verbs-hello localhost
step tutorial-c $? "see above"
wait "$server"
step tutorial-c-server $? "see above"
verbs-first &
server=$!
until_true verbs-first 0
step tutorial-rust $? "see above"
wait "$server"
step tutorial-rust-server $? "see above"
wait "$victim"
step victim $(($? != 9)) "it is to die with status 9"
exit "$failed"
