# Sockets of C programs, both sides on one node, by both compilers.

failed=0
for compiler in '' -clang; do
    socket-calls$compiler || failed=1
    socket-streams$compiler || failed=1
    socket-messages$compiler || failed=1
    socket-threads$compiler || failed=1
    socket-descriptors$compiler || failed=1
    socket-epoll$compiler || failed=1
    socket-waits$compiler || failed=1
    socket-paths$compiler || failed=1
    st-transfers$compiler || failed=1
    st-names$compiler || failed=1
    st-matrix$compiler work &
    worker=$!
    st-matrix$compiler host node0 || failed=1
    wait "$worker" || failed=1
    block-store-server$compiler 2 &
    server=$!
    block-store-client$compiler 0 || failed=1
    wait "$server" || failed=1
done
exit "$failed"
