# A hostile peer of RDMA verbs, first beside its victim, then against one on node 1.

failed=0
verbs-hostile victim &
victim=$!
verbs-hostile 0 1 || failed=1
wait "$victim" || failed=1
verbs-hostile 1 2 || failed=1
scif-kills idle || failed=1
verbs-storm idle || failed=1
exit "$failed"
