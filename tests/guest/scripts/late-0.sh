# A node that boots later is noticed, and one whose power is cut is too.

. /scheme/initfs/lib/steps.sh

online() { grep -q '^1 .* online' /scheme/scif/nodes; }
offline() { ! online; }

offline
step node-absent $? "node 1 is online before it was started"
text=$(cat /scheme/scif/1/3000 2>&1)
case "$text" in
    *[Nn]o*device*) step no-device 0 ;;
    *) step no-device 1 "a connect said: $text" ;;
esac

echo "LAUNCHER start 1"
until_true online
step node-came $? "node 1 is not online after a minute"
scif-pingpong 1 10
step talks-to-the-late-node $? "see above"

# A connection that is open when the other side's power goes: what it waits for ends.
{
    tries=0
    until { exec 7< /scheme/scif/1/3000; } 2> /dev/null || [ "$tries" -gt 600 ]; do
        tries=$((tries + 1))
        sleep 0.1
    done
    echo open > /tmp/open
    cat <&7 > /dev/null
    echo ended > /tmp/ended
} &
reader=$!
until_true [ -e /tmp/open ] && kill -0 "$reader" && [ ! -e /tmp/ended ]
step connection-open $? "no connection that stays open"
echo "LAUNCHER kill 1"
until_true offline || failed=1
grep -q '^1 .* lost .* gone' /scheme/scif/nodes
step node-lost $? "$(cat /scheme/scif/nodes)"
offline
step node-gone $? "node 1 is still online a minute after its power was cut"
until_true [ -e /tmp/ended ]
step connection-ended $? "a read from the lost node still waits"
scifctl
exit "$failed"
