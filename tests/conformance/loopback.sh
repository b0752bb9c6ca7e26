# The conformance suite within one node.

scif-conformance loopback
