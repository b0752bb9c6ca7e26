# The other node: serves until it is told to quit.

scif-peer
