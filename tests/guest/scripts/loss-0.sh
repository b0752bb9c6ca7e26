# A node that is killed, freezes, is cut off and comes back, as the others see it. The program asks
# for it, also by lines as LAUNCHER cut 0 1.

scif-loss
status=$?
echo "LAUNCHER kill 1"
exit "$status"
