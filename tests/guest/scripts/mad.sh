# Management datagrams on one node: files, agents, and the tool that shows the fabric.

. /scheme/initfs/lib/steps.sh

pid_of() { ps | grep " $1\$" | { read -r pid rest; echo "$pid"; }; }
another() { [ -n "$(pid_of "$1")" ] && [ "$(pid_of "$1")" != "$2" ]; }
agents() { [ "$(cat /scheme/infiniband/agents | wc -l)" -eq "$1" ]; }

failed=0
mad-test || failed=1
mad-test hostile || failed=1
umad-calls || failed=1
umad-calls-clang || failed=1
cat /scheme/infiniband/fabric || failed=1
cat /scheme/infiniband/agents || failed=1
madctl || failed=1
madctl svg || failed=1
madctl ping 1 2 || failed=1
madctl counters 1 || failed=1
! madctl ping 99 1 || failed=1
for words in "ping 1 0" "ping 1 x" "counters 1 0" "counters 1 x" "ping 0" "nothing"; do
    madctl $words > /dev/null 2> /tmp/err
    [ "$?" -eq 2 ] && grep -q "^madctl: .*${words##* }" /tmp/err
    step "wrong words, $words" $? "$(cat /tmp/err)"
done
for words in "--help" "--version" "ping 1 1" "counters 1" ""; do
    madctl $words >&- 2> /dev/null
    [ $? -eq 1 ]
    step "closed output, $words" $? "another status"
done
# Whoever reads the counters need not read to the end.
madctl counters 1 1 | head -n 1
# The daemon ends while two programs wait for datagrams.
mad-test gone &
rust=$!
umad-calls gone &
c=$!
until_true agents 3 || failed=1
ibd=$(pid_of ibd)
kill -9 "$ibd"
wait "$rust"
step gone-for-rust $? "other errors"
wait "$c"
step gone-for-c $? "other errors"
until_true another ibd "$ibd" || failed=1
until_true agents 1 || failed=1
madctl || failed=1
exit "$failed"
