# The server of verbs-0.sh, and its victim, which dies.

failed=0
verbs-test victim &
victim=$!
verbs-test serve || failed=1
wait "$victim"
exit "$failed"
