# The good one.

scif-peer
