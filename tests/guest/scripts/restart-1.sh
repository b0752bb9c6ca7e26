# The other ends of restart-0.sh.

scifblk serve 64K &
scif-peers
