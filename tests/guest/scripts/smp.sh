# Several processors: what programs see of them.
smp-test 4
