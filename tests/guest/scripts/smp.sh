# Several processors: what programs see of them.
smp-test 4 || exit 1
idle-poll-test
