# Programs of Scheduled Transfers are killed at random moments, on both nodes; nothing is left.

failed=0
st-storm 80 1 1 || failed=1
scif-kills idle || failed=1
exit "$failed"
