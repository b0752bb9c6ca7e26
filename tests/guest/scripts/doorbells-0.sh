# Doorbells of which a quarter is lost, and the others are late, or ring twice, are no more than
# hints: every byte arrives, only later.

echo "LAUNCHER doorbells 0 1 lose=1/4 late_ms=20 double=1/8"
failed=0
scifctl limits heartbeat_ms 20
scif-stream 1 2 || failed=1
scif-pingpong 1 200 || failed=1
scif-windows 1 brief || failed=1
echo "LAUNCHER doorbells 0 1 lose=1/1"
scif-stream 1 1 || failed=1
echo "LAUNCHER doorbells 0 1"
scif-peer quit 1 || failed=1
exit "$failed"
