# Everything that needs one node only: connections inside it.

failed=0
scif-errors || failed=1
scif-nonblock || failed=1
scif-stream || failed=1
scif-churn || failed=1
scif-kill || failed=1
scif-reap || failed=1
scif-pingpong || failed=1
scifctl
scifctl stats
# No card is in the machine.
scifctl cards || failed=1
words=$(scifctl reset 1 2>&1) && failed=1
case "$words" in
    *"no Xeon Phi card is node 1"*) ;;
    *)
        echo "STEP no-card: FAIL scifctl reset 1 said: $words"
        failed=1
        ;;
esac
exit "$failed"
