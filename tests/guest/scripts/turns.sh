# Whose turn it is on a processor.
turns-test || exit 1
idle-poll-test
