# The host's half of the demo (node 0); card.sh is the other half. Played by `make demo`.
#
# Lines `STEP <name>: ok` or `STEP <name>: FAIL <detail>` are results; lines `VALUE <name>: <value>`
# must agree between the nodes. The launcher knows which steps must come (tests/harness/src/command/demo.rs).

own=0
peer=1
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
step host-up $? "/scheme/scif/nodes does not show node $own and its peer $peer after a minute"
cat /scheme/scif/nodes

# 1. A greeting to the card: `echo` through a path, `cat` on the other side.
echo "greetings from the host" > /tmp/greeting
send /tmp/greeting 2050 || step greeting-to-card 1 "nobody accepted on port 2050"

# 2. A greeting from the card.
text=$(cat /scheme/scif/accept/2051)
[ "$text" = "greetings from the card" ]
step greeting-to-host $? "received '$text'"

# 3. A file of some megabytes to the card, and 4. back: the sums are compared by the launcher.
set -- $(sha256sum "$kernel")
echo "VALUE kernel-to-card: $1"
send "$kernel" 2052 || step kernel-to-card 1 "sending failed"
set -- $(cat /scheme/scif/accept/2053 | sha256sum)
echo "VALUE kernel-to-host: $1"

# 5. Eight connections at once: every sender keeps its connection until all eight are open.
for port in 2100 2101 2102 2103 2104 2105 2106 2107; do
    until {
        {
            cat /scheme/initfs/bin/sh
            until [ -e /tmp/all-open ]; do
                sleep 0.1
            done
        } > "/scheme/scif/$peer/$port"
    } 2> /dev/null; do
        sleep 0.1
    done &
done
tries=0
open=0
until [ "$open" -ge 8 ] || [ "$tries" -gt 600 ]; do
    open=$(($(cat /scheme/scif/connections | wc -l) - 1))
    tries=$((tries + 1))
    sleep 0.1
done
echo go > /tmp/all-open
wait
[ "$open" -ge 8 ]
step eight-at-once $? "only $open connections were open at the same time"

# 6. A port where nobody listens refuses, and says so.
text=$(cat "/scheme/scif/$peer/4000" 2>&1)
status=$?
echo "cat said: $text"
case "$status $text" in
    "0 "*) step refused 1 "the connection was accepted" ;;
    *[Rr]efused*) step refused 0 ;;
    *) step refused 1 "another error: $text" ;;
esac

# 7. Registered memory: the card's memory mapped here, with loads and stores both ways;
example-mapping "$peer"
step mapping $? "the host's part failed"
# 64 MiB there and back without a copy in between (the launcher compares the sums);
example-rma "$peer" || step rma 1 "the host's part failed"
# and a word that arrives in the card's memory behind the data it belongs to.
example-signal "$peer"
step signal $? "the host's part failed"

# 8. A C program on both nodes, over scif.h: the usage patterns of SCIF's clients.
pattern-windows call "$peer"
step c-program $? "the host's part failed"

# 9. What malloc gives is registered, and stays where it is.
pattern-pinning heap-call "$peer"
step heap $? "the host's part failed"

# 10. Another C program on both nodes, over st.h: the six combinations of push and pull.
st-six call "$peer" || step st-both 1 "the host's part failed with $?"

# The card waits for this word before it powers off.
echo done > /tmp/done
send /tmp/done 2099
exit "$failed"
