# Management datagrams between two nodes: the client, on the node with the subnet manager.

failed=0
mad-test 1 || failed=1
mad-test serve || failed=1
mad-test flooded || failed=1
exit "$failed"
