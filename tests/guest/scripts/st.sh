# Scheduled Transfers within one node; the victims die one after the other.

failed=0
st-test serve &
server=$!
(for name in 1 2 3 4 5 6 7 8; do st-test victim; done) &
victims=$!
st-test 0 || failed=1
wait "$server" || failed=1
wait "$victims"
exit "$failed"
