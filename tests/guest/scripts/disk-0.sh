# A disk whose blocks are memory of node 1 (disk-1.sh): written here and read there, and the other
# way round; the driver and the server of the disk come and go.

. /scheme/initfs/lib/steps.sh

disk=/scheme/disk.scif/1
say() {
    tries=0
    until { echo "$2" > "/scheme/scif/1/$1"; } 2> /dev/null || [ "$tries" -gt 600 ]; do
        tries=$((tries + 1))
        sleep 0.1
    done
}

there() { [ -e "$disk" ]; }
gone() { [ ! -e "$disk" ]; }
sum() { sha256sum < "$1"; }

scifblk attach &
driver=$!
until_true there
step disk-came $? "node 1 offers no disk"
ls /scheme/disk.scif

# What is written here is in node 1's memory, and did not pass through either daemon.
dd if=/scheme/rand of=/tmp/data bs=64K count=16 fullblock=1 status=none
before=$(scifctl stats bytes_sent bytes_received rma_bytes_cpu rma_bytes_dma copies)
dd if=/tmp/data of="$disk" bs=64K status=none
step written $? "dd failed"
[ "$(sum "$disk")" = "$(sum /tmp/data)" ]
step read-back $? "another content came back"
after=$(scifctl stats bytes_sent bytes_received rma_bytes_cpu rma_bytes_dma copies)
[ "$before" = "$after" ]
step daemon-moved-nothing $? "counters were $before, are $after"
say 2998 "$(sum /tmp/data)"
block=$(cat /scheme/scif/accept/2997)
[ "$(dd if="$disk" bs=512 count=1 status=none | sha256sum)" = "$block" ]
step block-of-the-owner $? "the block that node 1 wrote is not seen"
whole=$(sum "$disk")

# Only whole blocks, only inside, only root.
! dd if="$disk" bs=100 count=1 status=none > /dev/null 2>&1
step part-of-a-block $? "100 bytes were read"
dd if="$disk" bs=512 skip=2047 status=none > /tmp/last
[ "$(wc -c < /tmp/last)" -eq 512 ]
step last-block $? "there is more or less than one block"
cat /tmp/data /tmp/last > /tmp/long
! dd if=/tmp/long of="$disk" bs=512 status=none 2> /dev/null
step beyond-the-end $? "2049 blocks were written"
! as 1000 cat "$disk" > /dev/null 2>&1
step not-for-everybody $? "user 1000 read it"
# Nor past the driver: the server's greeting says where its pages are.
[ "$(as 1000 head -c 8 /scheme/scif/1/95 2> /dev/null | wc -c)" -eq 0 ]
step server-asks-who-asks $? "user 1000 was offered the pages"
dd if=/tmp/data of="$disk" bs=64K count=1 status=none

# Another driver finds what the first one left.
whole=$(sum "$disk")
kill "$driver"
wait "$driver"
until_true gone
step driver-went $? "$disk is still there"
scifblk attach &
driver=$!
until_true there
step driver-came-back $? "no disk"
[ "$(sum "$disk")" = "$whole" ]
step content-stayed $? "another content"

# The server goes while a file of its disk is open; another one comes.
exec 7< "$disk"
say 2996 stop
until_true gone
step server-went $? "$disk is still there"
! cat <&7 > /dev/null 2>&1
step lost-disk $? "a file of the lost disk can still be read"
exec 7<&-
say 2995 start
until_true there
step server-came-back $? "no disk"
[ "$(dd if="$disk" bs=4K status=none | wc -c)" -eq 65536 ]
step another-size $? "not 64K"
dd if=/tmp/data of="$disk" bs=64K count=1 status=none
[ "$(sum "$disk")" = "$(dd if=/tmp/data bs=64K count=1 status=none | sha256sum)" ]
step written-again $? "another content"

kill "$driver"
wait "$driver"
say 2994 done
# Only when node 1's driver has taken the word may this node be switched off.
taken() {
    set -- $(grep '^connections_closing ' /scheme/scif/stats)
    [ "$2" -eq 0 ]
}
until_true taken || failed=1
scifctl
exit "$failed"
