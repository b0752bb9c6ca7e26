# Scheduled Transfers between two nodes: the client. The server: st-1.sh.

failed=0
st-test 1 || failed=1
exit "$failed"
