# Files of Scheduled Transfers between two nodes: what echo and cat send and receive, to files and to
# sockets of C programs. The other side: stp-1.sh.

. /scheme/initfs/lib/steps.sh

stp=/scheme/scif/stp
kernel=/scheme/initfs/boot/kernel

# reach PATH: connects, as descriptor 7, once somebody accepts there.
reach() {
    tries=0
    until { exec 7<> "$1"; } 2> /dev/null || [ "$tries" -gt 600 ]; do
        tries=$((tries + 1))
        sleep 0.1
    done
}

# What programs of this node have.
held() {
    grep -E '^(handles|waiting|endpoints|connections|windows|pinned_pages|mapped_pages) ' /scheme/scif/stats
}

scifctl wait 1 || failed=1
before=$(held)

reach "$stp/1/2060"
echo hello >&7
answer=$(cat <&7)
[ "$answer" = "hello yourself" ]
step stp-greeting $? "the answer was '$answer'"
exec 7>&-

reach "$stp/1/2061"
cat "$kernel" >&7
step stp-file $? "cat: status $?"
exec 7>&-

# A file and a socket, both ways.
reach "$stp/1/2062"
echo one >&7
echo two >&7
exec 7>&-
answer=$(cat "$stp/accept/2063")
[ "$answer" = "alphabeta" ]
step stp-from-socket $? "the socket sent '$answer'"

# Peers that speak something else, or that are not there. The card says when it has heard this.
cat "$stp/accept/2070" > /tmp/seen &
seen=$!
opened=0
until [ -s /tmp/seen ]; do
    echo x 2> /dev/null > "$stp/1/2064" && opened=1
    sleep 0.1
done
wait "$seen"
[ "$opened" -eq 0 ]
step stp-other $? "a program that knows nothing of messages was connected to"
echo x 2> /dev/null > "$stp/1/2999"
[ $? -ne 0 ]
step stp-refused $? "a port without a listener was opened"
echo x 2> /dev/null > "$stp/99/2060"
[ $? -ne 0 ]
step stp-no-node $? "a node that is not there was reached"

# A writer that is killed in the middle of a message; then the socket is told that it may read.
reach "$stp/1/2065"
dd if=/scheme/zero bs=1048576 count=1 >&7 2> /dev/null &
writer=$!
exec 7>&-
# The ring is full: more than 200,000 bytes are not taken.
until_true grep -qE ' 1/2065 +connected +0 +2[0-9]{5} ' /scheme/scif/connections || failed=1
kill "$writer"
wait "$writer"
reach "$stp/1/2066"
exec 7>&-
answer=$(cat "$stp/accept/2067")
[ "$answer" = "cut" ]
step stp-killed-writer $? "the socket found '$answer'"

# A reader that is killed: the writer's next message fails, and nothing is left.
reach "$stp/1/2068"
echo first >&7
tries=0
while echo more >&7 && [ "$tries" -lt 300 ]; do
    tries=$((tries + 1))
    sleep 0.1
done 2> /dev/null
[ "$tries" -lt 300 ]
step stp-killed-reader $? "messages to a program that was killed"
exec 7>&-

same() {
    [ "$(held)" = "$before" ]
}
until_true same
step stp-nothing-left $? "before: $before now: $(held)"
say_done 1 2069
exit "$failed"
