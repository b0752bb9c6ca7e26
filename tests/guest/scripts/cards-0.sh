# Registered memory from card to card: node 1 (cards-1.sh) uses the memory of node 2 (cards-2.sh).
# The host uses it as well, in turns, and ends it.

failed=0
scif-windows 2 brief || failed=1
# Node 1 says that it is done, and waits until it was heard.
read -r word < /scheme/scif/accept/2999
[ "$word" = done ] || failed=1
scif-peer quit 2 || failed=1
exit "$failed"
