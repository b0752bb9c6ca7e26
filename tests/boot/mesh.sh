# The same script on each of three nodes: every node greets every other one, and hears from it.

nodes="0 1 2"

# Who am I? The line of this node ends with a star.
tries=0
seen=0
until [ "$seen" -eq 3 ] || [ "$tries" -gt 300 ]; do
    seen=0
    while read node role state self rest; do
        case "$node" in
            [0-9]*) seen=$((seen + 1)) ;;
        esac
        if [ "$self" = "*" ]; then
            own=$node
        fi
    done < /scheme/scif/nodes
    tries=$((tries + 1))
    sleep 0.1
done
if [ "$seen" -ne 3 ]; then
    echo "STEP three-nodes: FAIL node $own sees $seen nodes"
    cat /scheme/scif/nodes
    exit 1
fi

for peer in $nodes; do
    cat "/scheme/scif/accept/$((3000 + peer))" > "/tmp/from-$peer" &
    until { echo "from $own to $peer" > "/scheme/scif/$peer/$((3000 + own))"; } 2> /dev/null; do
        sleep 0.1
    done &
done
wait

status=0
for peer in $nodes; do
    text=$(cat "/tmp/from-$peer")
    if [ "$text" = "from $peer to $own" ]; then
        echo "STEP greeting from $peer to $own: ok"
    else
        echo "STEP greeting from $peer to $own: FAIL received '$text'"
        status=1
    fi
done
# Nobody leaves while others may still be reading: each waits for a word from each.
for peer in $nodes; do
    cat "/scheme/scif/accept/$((3100 + peer))" > /dev/null &
    until { echo done > "/scheme/scif/$peer/$((3100 + own))"; } 2> /dev/null; do
        sleep 0.1
    done &
done
wait
exit "$status"
