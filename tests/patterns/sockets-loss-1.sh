# The node that goes; what it serves ends with the power.

socket-loss serve
