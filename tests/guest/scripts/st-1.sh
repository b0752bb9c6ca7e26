# The server of st-0.sh, and its victims, which die one after the other.

failed=0
(for name in 1 2 3 4 5 6 7 8; do st-test victim; done) &
victims=$!
st-test serve || failed=1
wait "$victims"
exit "$failed"
