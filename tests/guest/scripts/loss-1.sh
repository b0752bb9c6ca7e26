# The node that is lost. Each of its lives begins here.

scifctl limits heartbeat_ms 100
scifctl limits silence_ms 800
scif-loss serve
