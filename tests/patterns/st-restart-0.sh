# micd is killed while programs of Scheduled Transfers are; those that are left get on with the next
# driver.

. /scheme/initfs/lib/steps.sh

pid_of() { ps | grep " $1\$" | { read -r pid rest; echo "$pid"; }; }
another() { now=$(pid_of "$1"); [ -n "$now" ] && [ "$now" != "$2" ]; }

st-storm 100 3 1 &
storm=$!
for restart in 1 2 3; do
    sleep 1
    micd=$(pid_of micd)
    kill -9 "$micd"
    until_true another micd "$micd"
    step "micd-came-back-$restart" $? "$(ps)"
done
wait "$storm"
step storm $? "the programs"
scif-kills idle
step idle $? "something is left"
exit "$failed"
