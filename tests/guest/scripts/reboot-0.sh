# A node that resets itself comes back (reboot-1.sh): node 0 tells it what to do in each of its lives.
. /scheme/initfs/lib/steps.sh

scifctl wait 1 60
step "the card is there" $? "$(scifctl nodes)"
echo reboot > /scheme/scif/accept/2050
step "it was told to reboot" $?
echo reboot > /scheme/scif/accept/2050
step "it came back" $? "$(scifctl nodes)"
echo stay > /scheme/scif/accept/2050
step "and once more" $? "$(scifctl nodes)"
[ "$(head -n 1 /scheme/scif/accept/2051)" = "done" ]
step "and stays" $?
exit "$failed"
