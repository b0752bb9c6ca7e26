# The server of verbs-0.sh, and its victim, which dies.

failed=0
verbs-test victim &
victim=$!
verbs-test serve || failed=1
uverbs-data serve || failed=1
wait "$victim"
[ $? -eq 9 ] || failed=1
verbs-manager serve || failed=1
# Its client has it die.
verbs-manager serve || failed=1
verbs-unconnected serve || failed=1
# Its client has it die.
verbs-unconnected serve || failed=1
verbs-group member 2072 &
member=$!
verbs-group member 2074 || failed=1
wait "$member" || failed=1
verbs-hello || failed=1
verbs-first || failed=1
exit "$failed"
