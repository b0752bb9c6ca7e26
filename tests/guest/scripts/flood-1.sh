# The other end of flood-0.sh.

scif-peers
