# The calling card.

pattern-windows call 1
status=$?
echo done > /scheme/scif/0/2999
exit "$status"
