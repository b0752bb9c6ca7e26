# A card that uses the memory of another card.

failed=0
scif-windows 2 || failed=1
echo done > /tmp/done
tries=0
until { cat /tmp/done > /scheme/scif/0/2999; } 2> /dev/null || [ "$tries" -gt 1200 ]; do
    tries=$((tries + 1))
    sleep 0.1
done
exit "$failed"
