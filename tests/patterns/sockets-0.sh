# Sockets of C programs between two nodes: the calling side, then the serving one.

failed=0
socket-streams call 1 || failed=1
socket-streams serve || failed=1
exit "$failed"
