# Sockets and transfers of C programs between two nodes: the calling sides, then the serving ones.

failed=0
for program in socket-streams socket-messages socket-epoll socket-waits st-transfers; do
    $program call 1 || failed=1
    $program serve || failed=1
done
st-matrix host node1 || failed=1
st-matrix work || failed=1
block-store-server 2 || failed=1
block-store-client 1 || failed=1
exit "$failed"
