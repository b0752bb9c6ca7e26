# The driver of this node is killed while node 0 watches (mad-loss-0.sh); then the node goes.

. /scheme/initfs/lib/steps.sh

pid_of() { ps | grep " $1\$" | { read -r pid rest; echo "$pid"; }; }
another() { now=$(pid_of "$1"); [ -n "$now" ] && [ "$now" != "$2" ]; }
has_context() { [ "$(cat /scheme/infiniband/contexts | wc -l)" -eq 2 ]; }

mad-test serve || failed=1
# A program here is told that its port goes and comes.
uverbs-test port &
watcher=$!
until_true has_context || failed=1
micd=$(pid_of micd)
kill -9 "$micd"
until_true another micd "$micd"
step micd-came-back $? "$(ps)"
wait "$watcher"
step port-events $? "other events than of the port"
mad-test serve || failed=1
exit "$failed"
