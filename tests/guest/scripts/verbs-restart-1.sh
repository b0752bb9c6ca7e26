# The other end of verbs-restart-0.sh.

failed=0
verbs-storm 40 4 0 || failed=1
scif-kills idle || failed=1
verbs-storm idle || failed=1
exit "$failed"
