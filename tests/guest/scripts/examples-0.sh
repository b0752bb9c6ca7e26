# Every example of lib/scif/examples and lib/st/examples between two nodes: the clients. The
# servers: examples-1.sh.

failed=0
example-nodes wait 1 || failed=1
for name in messages streams poll nonblocking registering mapping rma virtual fences signal \
    st-ping st-put st-store st-session; do
    "example-$name" 1
    status=$?
    if [ "$status" -eq 0 ]; then
        echo "STEP example-$name client: ok"
    else
        echo "STEP example-$name client: FAIL status $status"
        failed=1
    fi
done
exit "$failed"
