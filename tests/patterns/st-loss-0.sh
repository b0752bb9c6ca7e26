# The other node loses its power while programs of Scheduled Transfers are killed.

failed=0
st-storm until-loss 5 1 &
storm=$!
sleep 3
echo "LAUNCHER kill 1"
wait "$storm" || failed=1
scif-kills idle || failed=1
exit "$failed"
