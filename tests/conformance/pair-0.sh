# The conformance suite between two nodes: the cases run here, calls of the other side on node 1.

scif-conformance pair 1
