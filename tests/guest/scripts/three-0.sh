# Three nodes: the host and a card stream to another card at the same time (three-1.sh). Cards talk
# to each other over a link of their own.

failed=0
tries=0
until [ "$(cat /scheme/scif/nodes | wc -l)" -eq 4 ] || [ "$tries" -gt 600 ]; do
    tries=$((tries + 1))
    sleep 0.1
done
cat /scheme/scif/nodes
[ "$(cat /scheme/scif/nodes | wc -l)" -eq 4 ] || failed=1
scif-stream 2 1 || failed=1
# Node 1 says that it is done, and waits until it was heard.
read -r word < /scheme/scif/accept/2999
[ "$word" = done ] || failed=1
scif-peer quit 2 || failed=1
exit "$failed"
