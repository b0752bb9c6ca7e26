# What works on this machine: a line for each step, then what was counted. An entry of the boot
# menu runs it (docs/hardware.md); from the shell: sh /scheme/initfs/lib/self-check.sh
# Within this node; other nodes, if there are any, are only listed.

. /scheme/initfs/lib/steps.sh

# listening PORT: waits until somebody listens there, at most a minute or so.
listening() {
    tries=0
    until grep -q "$1  listening" /scheme/scif/ports; do
        tries=$((tries + 1))
        if [ "$tries" -gt 600 ]; then
            return 1
        fi
        sleep 0.1
    done
}

# ended STATUS SERVER: waits for the server, which without a client (STATUS is not 0) would wait
# for ever. Gives STATUS, or the server's.
ended() {
    if [ "$1" -ne 0 ]; then
        kill "$2" 2> /dev/null
    fi
    wait "$2"
    status=$?
    if [ "$1" -ne 0 ]; then
        status=$1
    fi
    return "$status"
}

# both NAME [MIB]: an example of the client library with itself.
both() {
    name=$1
    shift
    "example-$name" serve "$@" > /tmp/served 2>&1 &
    server=$!
    "example-$name" "$own" "$@" > /tmp/called 2>&1
    ended $? "$server"
    step "scif-$name" $? "status $?: $(cat /tmp/called /tmp/served)"
}

echo "self-check: processors and memory"
cat /scheme/sys/cpu
free

echo "self-check: devices"
tables=$(ls /scheme/acpi/tables | wc -l)
[ "$tables" -gt 0 ]
step acpi $? "no ACPI table was found: see dmesg"
functions=$(ls /scheme/pci | wc -l)
[ "$functions" -gt 0 ]
step pci $? "no PCI function was found: see dmesg"
ls /scheme/pci

echo "self-check: SCIF"
own=
while read node role state self rest; do
    if [ "$self" = "*" ]; then
        own=$node
    fi
done < /scheme/scif/nodes
[ -n "$own" ]
step scif-node $? "the driver of the scif: scheme does not know its own node: see dmesg"
cat /scheme/scif/nodes

cat < /scheme/scif/accept/2050 > /tmp/got &
server=$!
listening 2050 && echo hello > "/scheme/scif/$own/2050"
ended $? "$server"
status=$?
got=$(cat /tmp/got)
[ "$status $got" = "0 hello" ]
step scif-greeting $? "sent 'hello', received '$got', status $status"

kernel=/scheme/initfs/boot/kernel
cat /scheme/scif/accept/2051 > /tmp/got &
server=$!
listening 2051 && cat "$kernel" > "/scheme/scif/$own/2051"
ended $? "$server"
status=$?
sent=$(sha256sum < "$kernel")
got=$(sha256sum < /tmp/got)
rm /tmp/got
[ "$status $got" = "0 $sent" ]
step scif-file $? "sent $sent, received $got, status $status"

both messages
both mapping
both signal
both rma 4

echo "self-check: $passed passed, $failed failed"
[ "$failed" -eq 0 ]
