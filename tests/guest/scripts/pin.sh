# Memory pinned where it is, the calls for other drivers, and what scifctl shows, on one node.

. /scheme/initfs/lib/steps.sh

scif-pin || failed=1
scif-lent || failed=1

limits=/scheme/scif/limits
old=$(cat "$limits")
scifctl limits pinned_pages_per_user 123
step set-limit $? "see above"
[ "$(grep pinned_pages_per_user "$limits")" = "pinned_pages_per_user 123" ]
step limit-is-set $? "$(cat "$limits")"
! scifctl limits pinned_pages_per_user many 2> /dev/null
step limit-no-number $? "taken"
! scifctl limits nothing 5 2> /dev/null
step limit-unknown $? "taken"
! as 1000 scifctl limits pinned_pages_per_user 5 2> /dev/null
step limit-not-root $? "taken"
[ "$(scifctl limits | grep -c '^pinned_pages_per_user  *123$')" = 1 ]
step limit-shown $? "$(scifctl limits)"
echo "$old" > "$limits"

[ "$(scifctl peers)" = "added 0" ]
step peers $? "$(scifctl peers)"
listening() { scifctl ports | grep "3333.*cat$" > /dev/null; }
cat /scheme/scif/accept/3333 > /dev/null &
until_true listening
step program-named $? "$(scifctl ports)"
[ "$(scifctl ports port=3333 state=listening | wc -l)" = 2 ] && [ "$(scifctl ports port=1 | wc -l)" = 1 ]
step rows-chosen $? "$(scifctl ports port=3333 state=listening)"
scifctl ports port=3333 --json | grep '^\[{"port":3333,"state":"listening",.*"program":"cat"}\]$' > /dev/null
step json $? "$(scifctl ports port=3333 --json)"
! scifctl ports nothing=1 2> /dev/null
step no-such-column $? "taken"
[ "$(scifctl traffic node=0 | wc -l)" = 2 ] && scifctl traffic --json | grep '^\[{"node":0,"out":' > /dev/null
step traffic $? "$(scifctl traffic)"
scifctl watch 1 1 > /dev/null
step watch $? "see above"
scifctl programs | grep "port *3333 *listening *cat$" > /dev/null
step program-holds $? "$(scifctl programs)"
[ "$(scifctl programs 999999 | wc -l)" -eq 1 ]
step program-unknown $? "$(scifctl programs 999999)"
echo > /scheme/scif/0/3333
wait
while read -r table word; do
    scifctl "$table" > /tmp/table
    step "shows-$table" $? "see above"
    head -n 1 /tmp/table | grep -q "$word"
    step "has-$table" $? "$(head -n 1 /tmp/table)"
done << 'END'
nodes role
connections peer
windows protection
mappings handle
pins uses
stats counter
version skiff
END

# The trace tells what happened between the two ports, and only to root.
scifctl trace > /tmp/trace
for event in "daemon started, process" "sent CNCT_REQ" "received CNCT_GNT" "sent DISCNCT"; do
    grep "$event" /tmp/trace > /dev/null
    step "trace-has-$event" $? "$(tail -n 30 /tmp/trace)"
done
[ "$(scifctl trace 1 | wc -l)" -eq 1 ]
step trace-count $? "$(scifctl trace 1)"
! as 1000 scifctl trace 2> /dev/null
step trace-not-root $? "shown"
! scifctl trace old 2> /dev/null
step trace-no-former $? "shown"
[ "$(ls /scheme/log/trace)" = "micd" ]
step trace-listed $? "$(ls /scheme/log/trace)"
! as 1000 ls /scheme/log/trace 2> /dev/null
step trace-list-not-root $? "shown"
made=0
while [ "$made" -lt 20 ] && : 2> /dev/null > "/scheme/log/trace/made$made"; do made=$((made + 1)); done
[ "$made" -eq 7 ]
step traces-limited $? "$made besides that of micd"
: > /scheme/log/trace/made0 && : > /scheme/log/trace/made0
step trace-begun-again $? "$(ls /scheme/log/trace)"
! scifctl nonsense 2> /dev/null
step nonsense $? "taken"
exit "$failed"
