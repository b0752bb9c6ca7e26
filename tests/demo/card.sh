# The card's half of the demo (node 1); host.sh is the other half and explains the lines. The
# launcher puts the number of nodes into "nodes".

own=1
peer=0
kernel=/scheme/initfs/boot/kernel

. /scheme/initfs/lib/steps.sh

# introduced: whether this node knows who it is, and sees its peer.
introduced() {
    missing=2
    while read node role state self rest; do
        case "$node $self" in
            "$own *" | "$peer -") missing=$((missing - 1)) ;;
        esac
    done < /scheme/scif/nodes
    return "$missing"
}

# send FILE PORT: writes a file to the peer, waiting a minute or so for somebody to listen there.
send() {
    tries=0
    until { cat "$1" > "/scheme/scif/$peer/$2"; } 2> /dev/null; do
        tries=$((tries + 1))
        if [ "$tries" -gt 600 ]; then
            return 1
        fi
        sleep 0.1
    done
}

until_true introduced
step card-up $? "/scheme/scif/nodes does not show node $own and its peer $peer after a minute"

# 1. A greeting from the host.
text=$(cat /scheme/scif/accept/2050)
[ "$text" = "greetings from the host" ]
step greeting-to-card $? "received '$text'"

# 2. A greeting to the host.
echo "greetings from the card" > /tmp/greeting
send /tmp/greeting 2051 || step greeting-to-host 1 "nobody accepted on port 2051"

# 3. A file from the host, and 4. the same kind of file to the host.
set -- $(cat /scheme/scif/accept/2052 | sha256sum)
echo "VALUE kernel-to-card: $1"
set -- $(sha256sum "$kernel")
echo "VALUE kernel-to-host: $1"
send "$kernel" 2053 || step kernel-to-host 1 "sending failed"

# 5. Eight connections at once.
for port in 2100 2101 2102 2103 2104 2105 2106 2107; do
    cat "/scheme/scif/accept/$port" > "/tmp/received-$port" &
done
wait
set -- $(sha256sum /scheme/initfs/bin/sh)
expected=$1
wrong=
for port in 2100 2101 2102 2103 2104 2105 2106 2107; do
    set -- $(sha256sum "/tmp/received-$port")
    if [ "$1" != "$expected" ]; then
        wrong="$wrong $port"
    fi
done
[ -z "$wrong" ]
step eight-intact $? "wrong content on ports$wrong"

# 7. Registered memory.
example-mapping serve || step mapping 1 "the card's part failed"
example-rma serve || step rma 1 "the card's part failed"
example-signal serve || step signal 1 "the card's part failed"

# 8. A C program.
pattern-windows serve || step c-program 1 "the card's part failed"

# 9. What malloc gives.
pattern-pinning heap-serve || step heap 1 "the card's part failed"

# 10. Push and pull.
st-six serve || step st-both 1 "the card's part failed with $?"

# With a second card (second-card.sh): its memory, without the host.
if [ "$nodes" -ge 3 ]; then
    example-rma 2 16 card-to-card || step card-to-card 1 "the first card's part failed"
fi

# Stay until the host has finished.
cat /scheme/scif/accept/2099 > /dev/null
exit "$failed"
