# Programs that flood the driver, and one that does not; the other end is flood-1.sh.

failed=0
scif-flood 1 || failed=1
scif-peers quit 1 || failed=1
exit "$failed"
