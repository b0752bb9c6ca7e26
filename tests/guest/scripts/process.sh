# How much programs may have on one node; then processes, threads, credentials and names, which ends
# with killing the daemon of /scheme/null.
failed=0
process-limits || failed=1
process-test || failed=1
exit "$failed"
