# Pattern 33: the other node goes and comes back.

pattern-loss call 1
