# The victim of verbs-hostile-0.sh.

failed=0
verbs-hostile victim || failed=1
scif-kills idle || failed=1
verbs-storm idle || failed=1
exit "$failed"
