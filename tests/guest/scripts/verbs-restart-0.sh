# micd, and the daemon of the RDMA device, are killed while programs of RDMA verbs are; those that are
# left get on with the next one.

. /scheme/initfs/lib/steps.sh

pid_of() { ps | grep " $1\$" | { read -r pid rest; echo "$pid"; }; }
another() { now=$(pid_of "$1"); [ -n "$now" ] && [ "$now" != "$2" ]; }

verbs-ids survive &
ids=$!
until_true test -e /tmp/verbs-ids-begun
step ids-have-begun $? "$(ps)"
before=$(pid_of micd)
kill -9 "$before"
until_true another micd "$before" || failed=1
wait "$ids"
step ids-survive $? "see above"
verbs-storm until-told 3 1 &
storm=$!
until_true test -e /tmp/verbs-storm-begun
step storm-has-begun $? "$(ps)"
for daemon in ibd micd ibd micd; do
    sleep 1
    before=$(pid_of "$daemon")
    kill -9 "$before"
    until_true another "$daemon" "$before"
    step "$daemon-came-back" $? "$(ps)"
done
# The storms meet while the driver is away.
kill -9 "$(pid_of micd)"
: > /tmp/verbs-storm-enough
wait "$storm"
step storm $? "the programs"
scif-kills idle
step idle $? "something is left"
verbs-storm idle
step idle-device $? "the device has something"
exit "$failed"
