# The card that serves the two others.

scif-peer
