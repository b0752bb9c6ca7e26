# The calling card.

pattern-windows call 1
status=$?
# Node 0 takes the word and ends the connection. Only then may this node be switched off: what the
# other driver has not taken from the link by then is lost.
tries=0
until { exec 7<> /scheme/scif/0/2999; } 2> /dev/null || [ "$tries" -gt 600 ]; do
    tries=$((tries + 1))
    sleep 0.1
done
echo done >&7
cat <&7 > /dev/null 2>&1
exit "$status"
