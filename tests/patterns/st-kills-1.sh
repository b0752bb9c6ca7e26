# The other end of st-kills-0.sh.

failed=0
st-storm 80 2 0 || failed=1
scif-kills idle || failed=1
exit "$failed"
