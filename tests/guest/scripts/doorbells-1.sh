# The other end; see doorbells-0.sh.

scifctl limits heartbeat_ms 20
scif-peer
