# The other node loses its power while programs of RDMA verbs are killed.

. /scheme/initfs/lib/steps.sh

failed=0
verbs-storm until-loss 5 1 &
storm=$!
until_true test -e /tmp/verbs-storm-both || failed=1
echo "LAUNCHER kill 1"
wait "$storm" || failed=1
scif-kills idle || failed=1
verbs-storm idle || failed=1
exit "$failed"
