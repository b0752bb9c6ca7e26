# A node that boots later is noticed, and one whose power is cut is too.

step() {
    if [ "$2" -eq 0 ]; then
        echo "STEP $1: ok"
    else
        echo "STEP $1: FAIL $3"
        failed=1
    fi
}

online() {
    grep -q '^1 .* online' /scheme/scif/nodes
}

failed=0
! online
step node-absent $? "node 1 is online before it was started"
text=$(cat /scheme/scif/1/3000 2>&1)
case "$text" in
    *[Nn]o*device*) step no-device 0 ;;
    *) step no-device 1 "a connect said: $text" ;;
esac

echo "LAUNCHER start 1"
tries=0
until online || [ "$tries" -gt 300 ]; do
    tries=$((tries + 1))
    sleep 0.1
done
online
step node-came $? "node 1 is not online after 30 s"
scif-pingpong 1 10
step talks-to-the-late-node $? "see above"

# A connection that is open when the other side's power goes: what it waits for ends.
{
    tries=0
    until { exec 7< /scheme/scif/1/3000; } 2> /dev/null || [ "$tries" -gt 50 ]; do
        tries=$((tries + 1))
        sleep 0.1
    done
    echo open > /tmp/open
    cat <&7 > /dev/null
    echo ended > /tmp/ended
} &
reader=$!
tries=0
until [ -e /tmp/open ] || [ "$tries" -gt 100 ]; do
    tries=$((tries + 1))
    sleep 0.1
done
[ -e /tmp/open ] && kill -0 "$reader" && [ ! -e /tmp/ended ]
step connection-open $? "no connection that stays open"
echo "LAUNCHER kill 1"
tries=0
while online && [ "$tries" -lt 300 ]; do
    tries=$((tries + 1))
    sleep 0.1
done
grep -q '^1 .* lost .* gone' /scheme/scif/nodes
step node-lost $? "$(cat /scheme/scif/nodes)"
! online
step node-gone $? "node 1 is still online 30 s after its power was cut"
tries=0
until [ -e /tmp/ended ] || [ "$tries" -gt 50 ]; do
    tries=$((tries + 1))
    sleep 0.1
done
[ -e /tmp/ended ]
step connection-ended $? "a read from the lost node still waits"
scifctl
exit "$failed"
