# The node that comes late and goes without a word.

scif-peer
