# Clients are killed at random moments; the other end is kills-1.sh.

failed=0
scif-crowd &
crowd=$!
scif-kills 40 1 1 || failed=1
scif-crowd quit 0 || failed=1
wait "$crowd" || failed=1
scif-crowd quit 1 || failed=1
scif-kills idle || failed=1
scifctl
exit "$failed"
