# Asks node 0 what to do (reboot-0.sh), and does it.
. /scheme/initfs/lib/steps.sh

# One answer a life: each is for one.
word=
while [ -z "$word" ]; do
    word=$(cat /scheme/scif/0/2050 2> /dev/null)
    sleep 0.1
done
if [ "$word" = reboot ]; then
    reboot
    sleep 60
    exit 1
fi
say_done 0 2051
