# Clients are killed at random moments; the other end is kills-1.sh.

failed=0
scif-peers &
peers=$!
scif-kills 40 1 1 || failed=1
scif-peers quit 0 || failed=1
wait "$peers" || failed=1
scif-peers quit 1 || failed=1
scif-kills idle || failed=1
scifctl
exit "$failed"
