# No start script has started micd. Here a spawner of drivers does, for one function of the link; on
# node 1 it is started by hand (starts-1.sh).

. /scheme/initfs/lib/steps.sh

linked() { [ "$(cat /scheme/scif/nodes 2> /dev/null | wc -l)" -ge 3 ]; }

[ ! -e /scheme/scif/version ]
step nothing-before $? "the scheme is there already"
spawn-driver micd || failed=1
until_true linked
step linked $? "$(cat /scheme/scif/nodes)"

# Whoever comes later leaves the first alone.
micd
step second-is-not-needed $? "status"
spawned=$(ps | grep -c ' micd$')
[ "$spawned" -eq 1 ]
step one-is-left $? "$spawned of them"

# A node may be linked before anybody listens there. The text is there once.
text=
heard() {
    [ -n "$text" ] || text=$(cat /scheme/scif/1/2050 2> /dev/null)
    [ -n "$text" ]
}
until_true heard || failed=1
[ "$text" = "started by hand" ]
step message $? "another text: '$text'"
exit "$failed"
