# Rust's standard library between two nodes: the client. The server: pair-1.sh.

std-pair 1
