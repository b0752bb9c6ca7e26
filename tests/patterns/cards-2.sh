# The calling card.

. /scheme/initfs/lib/steps.sh

pattern-windows call 1
status=$?
say_done 0 2999
exit "$status"
