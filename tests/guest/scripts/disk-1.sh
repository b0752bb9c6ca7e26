# The node that offers its memory as a disk, and has the disk as a file too (disk-0.sh).

. /scheme/initfs/lib/steps.sh

disk=/scheme/disk.scif/1
say() {
    tries=0
    until { echo "$2" > "/scheme/scif/0/$1"; } 2> /dev/null || [ "$tries" -gt 600 ]; do
        tries=$((tries + 1))
        sleep 0.1
    done
}

there() { [ -e "$disk" ]; }
nothing_pinned() { [ "$(cat /scheme/scif/pins | wc -l)" -eq 1 ]; }

scifblk serve 1M &
server=$!
scifblk attach &
driver=$!
until_true there
step own-disk-came $? "no file for the own disk"

# A connection that there is no room for is refused, and the server serves on.
listener=$(scifctl ports port=95 state=listening)
limits=$(cat /scheme/scif/limits)
scifctl limits endpoints_per_process 1
! head -c 8 /scheme/scif/1/95 > /dev/null 2>&1
step no-room $? "one endpoint too many was accepted"
echo "$limits" > /scheme/scif/limits
[ "$(scifctl ports port=95 state=listening)" = "$listener" ]
step serves-on $? "$(scifctl ports port=95 state=listening)"

[ "$(cat /scheme/scif/accept/2998)" = "$(sha256sum < "$disk")" ]
step written-by-the-other $? "node 0 wrote something else"
dd if=/scheme/rand of=/tmp/block bs=512 count=1 fullblock=1 status=none
dd if=/tmp/block of="$disk" bs=512 status=none
step block-written $? "dd failed"
say 2997 "$(sha256sum < /tmp/block)"

[ "$(cat /scheme/scif/accept/2996)" = stop ]
step told-to-stop $? "another word came"
! nothing_pinned
step pages-pinned $? "nothing is pinned"
kill "$server"
wait "$server"
until_true nothing_pinned
step pages-free-again $? "$(cat /scheme/scif/pins)"

[ "$(cat /scheme/scif/accept/2995)" = start ]
step told-to-start $? "another word came"
scifblk serve 64K &
server=$!
[ "$(cat /scheme/scif/accept/2994)" = done ]
step told-the-end $? "another word came"
kill "$driver" "$server"
wait "$driver"
wait "$server"
until_true nothing_pinned
step nothing-left $? "$(cat /scheme/scif/pins)"
scifctl
exit "$failed"
