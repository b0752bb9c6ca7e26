# Sockets of C programs between two nodes: the serving side, then the calling one.

failed=0
socket-streams serve || failed=1
socket-streams call 0 || failed=1
exit "$failed"
