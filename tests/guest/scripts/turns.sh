# Whose turn it is on a processor.
turns-test
