# The node that goes, in the middle of its programs.

scifctl limits heartbeat_ms 100
scifctl limits silence_ms 800
verbs-storm 100000 6 0
