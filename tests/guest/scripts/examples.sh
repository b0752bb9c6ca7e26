# Every example of lib/scif/examples and lib/st/examples within one node: both roles here.

failed=0

step() {
    if [ "$2" -eq 0 ]; then
        echo "STEP example-$1: ok"
    else
        echo "STEP example-$1: FAIL status $2 $3"
        failed=1
    fi
}

for name in messages streams poll nonblocking registering mapping virtual fences signal \
    st-ping st-put st-store st-session; do
    "example-$name" serve &
    server=$!
    "example-$name" 0
    client=$?
    wait "$server"
    server=$?
    step "$name" $((client + server)) "client $client, server $server"
done
example-rma serve 4 &
server=$!
example-rma 0 4
client=$?
wait "$server"
server=$?
step rma $((client + server)) "client $client, server $server"
example-nodes
step nodes "$?"
example-nodes wait 0
step nodes-wait "$?"
example-raw
step raw "$?"
exit "$failed"
