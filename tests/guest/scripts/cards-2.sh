# The card whose memory the two others use.
scif-peer
