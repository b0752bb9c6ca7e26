# A node's power is cut in the middle of transfers of all kinds; nothing of it stays.

scif-loss kills 3
status=$?
echo "LAUNCHER kill 1"
exit "$status"
