# C++ over SCIF between two nodes: the client, by both compilers against each other's servers.

failed=0
for client in plusplus-pair plusplus-pair-clang; do
    $client 1 || failed=1
done
exit "$failed"
