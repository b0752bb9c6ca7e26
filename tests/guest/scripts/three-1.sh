# A card that talks to another card.

. /scheme/initfs/lib/steps.sh

scif-stream 2 1 || failed=1
scif-errors 2 || failed=1
say_done 0 2999
exit "$failed"
