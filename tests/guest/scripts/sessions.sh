# Level 2 of Scheduled Transfers within one node: micd is killed, and connections are cut.

failed=0
st-session serve &
server=$!
st-session 0 || failed=$?
wait "$server" || failed=$?
st-session serve-few &
server=$!
st-session crowd 0 || failed=$?
wait "$server" || failed=$?
exit "$failed"
