# Scheduled Transfers within one node; the victims die one after the other.

failed=0
st-test serve &
server=$!
# Seven die; the last one refuses a client.
(
    bad=0
    for name in 1 2 3 4 5 6 7; do
        st-test victim
        [ $? -eq 9 ] || bad=1
    done
    st-test victim || bad=1
    exit "$bad"
) &
victims=$!
st-test 0 || failed=1
wait "$server" || failed=1
wait "$victims" || failed=1
exit "$failed"
