# The node of a socket's peer loses its power.

socket-loss call 1
