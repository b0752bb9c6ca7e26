# Processes, threads, credentials and names on one node; then how much programs may have.
failed=0
process-test || failed=1
process-limits || failed=1
exit "$failed"
