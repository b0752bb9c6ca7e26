# A node with 3 GiB, of which QEMU puts one above 4 GiB: memory on both sides of the hole is used, and
# SCIF on top of it.

free
memory-test 1536 || exit 1
sh /scheme/initfs/lib/self-check.sh
