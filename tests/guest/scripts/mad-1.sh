# The server of mad-0.sh, then the client, which asks the subnet manager across the link.

failed=0
mad-test serve || failed=1
madctl || failed=1
madctl ping 0x1 2 || failed=1
# Node 0 ends after it.
mad-test 0 || failed=1
mad-test flood 0 || failed=1
exit "$failed"
