# Registered memory within one node.
scif-windows
