# The other node: serves until it is told to quit, and lends the word of scif-atomic.

failed=0
scif-atomic wait &
lender=$!
scif-peer || failed=1
wait "$lender" || failed=1
exit "$failed"
