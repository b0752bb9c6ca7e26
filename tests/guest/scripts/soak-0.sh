# A short run of what `make soak` runs for long: load on three nodes, programs and a node killed.
scif-soak conduct 20 1 8
