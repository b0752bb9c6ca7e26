# A program without memory panics on purpose; the script goes on and even ends with status 0. The
# run must fail. The line shows although standard error is elsewhere.

panic-test 2>/dev/null
status=$?
[ "$status" -eq 101 ] || echo "the status is $status, not 101"
exit 0
