# The other end of st-restart-0.sh.

failed=0
st-storm 100 4 0 || failed=1
scif-kills idle || failed=1
exit "$failed"
