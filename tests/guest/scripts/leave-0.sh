# A node that is switched off in order says so before (leave-1.sh): EXIT, not silence. Then nobody
# has to wait for its heart, and a base peer, which listens to no heart, learns of it at all.

. /scheme/initfs/lib/steps.sh

online() { grep -q '^1 .* online' /scheme/scif/nodes; }
offline() { ! online; }

until_true online
step node-came $? "node 1 is not online after a minute"

# Programs at both ends are in the middle of something: in the rings themselves, and by files.
# It counts its rounds by the first ones. With many repetitions it is never done, however slow those
# were.
scif-perf 1 --port 1300 --test msg_rtt --size 64 --budget-ms 600000 --repetitions 100000 > /dev/null 2>&1 &
worker=$!
tries=0
until { exec 7<> /scheme/scif/1/2999; } 2> /dev/null || [ "$tries" -gt 600 ]; do
    tries=$((tries + 1))
    sleep 0.1
done
sleep 1
kill -0 "$worker"
step worker-works $? "$(cat /scheme/scif/connections)"
echo done >&7
until_true offline
step node-left $? "node 1 is still online a minute after its end"
grep -q '^1 .* lost .* left' /scheme/scif/nodes
step said-so $? "$(cat /scheme/scif/nodes)"
wait "$worker"
[ $? -ne 0 ]
step worker-ended $? "it succeeded, although its node has left"
rest=$(cat <&7 2> /dev/null)
[ -z "$rest" ]
step file-ended $? "$rest"
exec 7>&-
no_connections() { [ "$(wc -l < /scheme/scif/connections)" -le 1 ]; }
until_true no_connections
step connections-ended $? "$(cat /scheme/scif/connections)"
exit "$failed"
