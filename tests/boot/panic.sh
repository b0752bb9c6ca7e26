# A program panics on purpose; the script goes on and even ends with status 0. The run must fail.

panic-test
status=$?
[ "$status" -eq 101 ] || echo "the status is $status, not 101"
exit 0
