# The server of verbs-0.sh, and its victim, which dies.

failed=0
verbs-test victim &
victim=$!
verbs-test serve || failed=1
wait "$victim"
verbs-manager serve || failed=1
verbs-manager serve
verbs-hello || failed=1
verbs-first || failed=1
exit "$failed"
