# A card that uses the memory of another card.

. /scheme/initfs/lib/steps.sh

scif-windows 2 || failed=1
say_done 0 2999
exit "$failed"
