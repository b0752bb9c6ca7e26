# Sockets and transfers of C programs between two nodes: the serving sides, then the calling ones.

failed=0
for program in socket-streams socket-messages socket-epoll socket-waits st-transfers; do
    $program serve || failed=1
    $program call 0 || failed=1
done
st-matrix work || failed=1
st-matrix host host || failed=1
block-store-client 0 || failed=1
block-store-server 2 || failed=1
exit "$failed"
