# The other side of the conformance suite: carries out calls until it is told to end.

scif-conformance agent
