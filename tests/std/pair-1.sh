# The server of pair-0.sh.

std-pair serve
