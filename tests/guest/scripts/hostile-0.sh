# Node 1 breaks the protocol in every way it can (scif-hostile), node 2 is a good one. The host
# resets the link with node 1 again and again, and everything else goes on.

. /scheme/initfs/lib/steps.sh

counter() {
    set -- $(grep "^$1 " /scheme/scif/stats)
    echo "$2"
}

for port in 3000 3001 3002 3003; do
    scif-peer "$port" &
done
# The hostile node says by a connection that it is done.
{
    cat /scheme/scif/accept/2999 > /dev/null && echo ended > /tmp/hostile-ended
} &
rounds=0
until [ -e /tmp/hostile-ended ] || [ "$rounds" -gt 20 ]; do
    rounds=$((rounds + 1))
    scif-stream 2 1 || failed=1
done
# The streams may be over before the time of the hostile node is.
until_true [ -e /tmp/hostile-ended ]
step hostile-ended $? "node 1 did not come to its end"
[ "$(counter links_failed)" -gt 0 ]
step links-reset $? "no link was reset: $(cat /scheme/scif/stats)"
dmesg | grep 'its link is given up'
step says-why $? "no line of the log says why"
scif-stream 2 1
step others-go-on $? "see above"
cat /scheme/scif/nodes /scheme/scif/stats
scif-peer quit 2 || failed=1
exit "$failed"
