# The servers of the examples, one after the other; examples-0.sh has the clients.

failed=0
for name in messages streams poll nonblocking registering mapping rma virtual fences signal \
    st-ping st-put st-store st-session; do
    "example-$name" serve
    status=$?
    if [ "$status" -eq 0 ]; then
        echo "STEP example-$name server: ok"
    else
        echo "STEP example-$name server: FAIL status $status"
        failed=1
    fi
done
exit "$failed"
