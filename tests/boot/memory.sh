# A node with 6 GiB: memory on both sides of the hole below 4 GiB, and SCIF on top of it.

free
memory-test 2560 || exit 1
sh /scheme/initfs/lib/self-check.sh
