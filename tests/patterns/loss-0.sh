# Pattern 33: the other node goes and comes back.

pattern-loss call 1
status=$?
# It would serve for ever.
echo "LAUNCHER kill 1"
exit "$status"
