# micd is killed on this node while programs do everything with node 1 (restart-1.sh).

. /scheme/initfs/lib/steps.sh

pid_of() { ps | grep " $1\$" | { read -r pid rest; echo "$pid"; }; }
another() { now=$(pid_of "$1"); [ -n "$now" ] && [ "$now" != "$2" ]; }
linked() { [ "$(cat /scheme/scif/nodes 2> /dev/null | wc -l)" -ge 3 ]; }
there() { [ -e "$1" ]; }
gone() { [ ! -e "$1" ]; }
disks_are_there() { there /scheme/disk.scif/0 && there /scheme/disk.scif/1; }
sums() { sha256sum < /scheme/disk.scif/0; sha256sum < /scheme/disk.scif/1; }

until_true linked || failed=1
scif-restart 1 || failed=1

# Disks over SCIF: the driver and both servers find the new micd, and the contents stay.
scifblk serve 64K &
server=$!
scifblk attach &
driver=$!
until_true disks_are_there
step disks-came $? "$(ls /scheme/disk.scif)"
dd if=/scheme/rand of=/scheme/disk.scif/0 bs=64K count=1 fullblock=1 status=none
dd if=/scheme/rand of=/scheme/disk.scif/1 bs=64K count=1 fullblock=1 status=none
before=$(sums)
exec 7< /scheme/disk.scif/1
# A program with the RDMA device open is told that its port goes and comes.
has_context() { [ "$(cat /scheme/infiniband/contexts | wc -l)" -eq 2 ]; }
uverbs-test port &
watcher=$!
until_true has_context || failed=1
micd=$(pid_of micd)
kill -9 "$micd"
until_true another micd "$micd"
step micd-came-back $? "$(ps)"
wait "$watcher"
step port-events $? "other events than of the port"
until_true disks_are_there
step disks-came-back $? "$(ls /scheme/disk.scif)"
[ "$(sums)" = "$before" ]
step contents-stayed $? "other contents"
! cat <&7 > /dev/null 2>&1
step old-file $? "a file of the lost disk can still be read"
exec 7<&-
kill "$driver" "$server"
wait "$driver"
wait "$server"

scif-pin || failed=1

scifctl
dmesg | grep init
scif-peers quit 1 || failed=1
exit "$failed"
