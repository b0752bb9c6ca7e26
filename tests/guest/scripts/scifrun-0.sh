# Programs that node 0 starts on node 1 (scifrun-1.sh only waits).
. /scheme/initfs/lib/steps.sh

failed=0
check() {
    if [ "$2" = "$3" ]; then
        step "$1" 0
    else
        step "$1" 1 "got '$2' in place of '$3'"
        failed=1
    fi
}

scifctl wait 7 0 2> /dev/null
check "wait for no node" $? 1
scifctl wait 1 60
check "wait for the card" $? 0
# The card is there before its services are.
until_true scifrun -n 1 true || failed=1
before=$(scifctl stats endpoints)

check "output" "$(scifrun 1 echo one two)" "one two"
check "name of the node" "$(scifrun -n card1 sh -c 'echo $HOSTNAME')" "card1"
check "by the name of sockets" "$(scifrun -n node1 sh -c 'echo $HOSTNAME')" "card1"
check "errors" "$(scifrun 1 ls /none 2>&1 > /tmp/out; cat /tmp/out)" "ls: /none: No such file or directory"
check "input" "$(echo some words | scifrun 1 wc -w)" "2"
scifrun 1 sh -c 'exit 7'
check "exit status" $? 7
scifrun 1 sh -c 'kill -9 $$'
check "signal" $? 137
scifrun 1 no-such-program 2> /tmp/out
check "no such program" "$? $(cat /tmp/out)" "127 scifrun: node 1: no-such-program: No such file or directory"
scifrun -r 1 /scheme/initfs/lib 2> /dev/null
check "not a program" $? 126
scifrun 9 true 2> /dev/null
check "no such node" $? 255
check "this node" "$(scifrun -n 0 echo here)" "here"

# rsh gives a command line to the other node's shell.
check "rsh, by words" "$(rsh -n card1 echo one '"two  three"' '$HOSTNAME')" "one two  three card1"
check "rsh, by one word" "$(echo some words | rsh -l root card1 'wc -w; hostname' | tr '\n' ' ')" "2 card1 "
rsh -n 1 'exit 7'
check "status by rsh" $? 7
rsh -l someone 1 true 2> /tmp/out
check "rsh, another user" "$? $(cat /tmp/out)" "255 rsh: -l someone: only root may run programs of other nodes"
rsh 1 2> /tmp/out
check "rsh, no command" "$? $(head -n 1 /tmp/out)" "255 usage: rsh [-n] [-l root] NODE COMMAND [ARGUMENT…]"

# A connection that there is no room for is refused, and the server serves on.
server=$(scifctl ports port=22 state=listening)
limits=$(cat /scheme/scif/limits)
scifctl limits endpoints_per_process 1
scifrun -n 0 true 2> /dev/null
check "no room" $? 255
echo "$limits" > /scheme/scif/limits
check "room again" "$(scifrun -n 0 echo here)" "here"
check "the same server" "$(scifctl ports port=22 state=listening)" "$server"

# Large streams both ways at once, and a program that reads nothing.
dd if=/scheme/zero of=/tmp/large bs=65536 count=64 2> /dev/null
large=$(sha256sum < /tmp/large)
check "large streams" "$(scifrun 1 cat < /tmp/large | sha256sum)" "$large"
check "input that nobody wants" "$(scifrun 1 echo done < /tmp/large)" "done"

# Files there and back, a script among them.
echo 'tr_in=$(cat in.txt); echo "$tr_in, $WORD" > out.txt; pwd' > /tmp/job
echo hello > /tmp/in.txt
directory=$(scifrun -f /tmp/in.txt -e WORD=card -g out.txt:/tmp/back 1 /tmp/job)
check "status of a script" $? 0
check "a file came back" "$(cat /tmp/back)" "hello, card"
scifrun -n 1 test -e "$directory"
check "the directory is gone" $? 1
# Whoever guesses the names of directories to come stops no run.
first=${directory##*-}
names="i=$first; while [ \$i -le $((first + 500)) ]; do echo /tmp/scifrun-\$i; i=\$((i+1)); done"
scifrun -n -u 5 1 sh -c "mkdir \$($names)"
check "names are taken" $? 0
scifrun -n -g out.txt:/tmp/back 1 sh -c 'echo again > out.txt'
check "a directory whose name is taken" "$? $(cat /tmp/back)" "0 again"
scifrun -n 1 sh -c "rmdir \$($names)"
scifrun -n -d /tmp 1 pwd > /tmp/out
check "directory" "$(cat /tmp/out)" "/tmp"
scifrun -n -g none 1 true 2> /dev/null
check "a file that is not there" $? 1
for file in /scheme/zero /tmp; do
    scifrun -n -f $file:copy 1 true 2> /tmp/out
    check "not a regular file, $file" "$? $(cat /tmp/out)" "1 scifrun: $file is no regular file"
done
scifrun -n -d /tmp -f /tmp/in.txt 1 cat in.txt > /scheme/null 2> /tmp/out
check "a directory, and one of the run's own" "$? $(grep -c ' -d /tmp: ' /tmp/out)" "2 1"

# Errors of this node's streams.
scifrun 1 cat < /tmp 2> /tmp/out
check "input that cannot be read" "$? $(grep -c 'scifrun: input: ' /tmp/out)" "1 1"
scifrun -n 1 echo lost >&- 2> /tmp/out
check "output that cannot be written" "$? $(grep -c 'scifrun: output: ' /tmp/out)" "1 1"
scifrun --help >&- 2> /scheme/null
check "help that cannot be written" $? 1

# Only root, and with a user's rights.
as 5 scifrun -n 1 true 2> /tmp/out
check "not root" "$? $(cat /tmp/out)" "255 scifrun: only root may run programs on other nodes"
as 5 sh -c 'echo x > /scheme/scif/1/22' 2> /dev/null
scifrun -n -u 5 1 sh -c 'echo 1 > /scheme/scif/limits' 2> /dev/null
check "a user's rights" $? 1

# The end of scifrun is the end of what it has started.
scifrun -n 1 sh -c 'cat /scheme/scif/accept/4001 & cat /scheme/scif/accept/4002' &
client=$!
cats() { scifrun -n 1 ps | grep -c ' cat$'; }
two_cats() { [ "$(cats)" -eq 2 ]; }
no_cats() { [ "$(cats)" -eq 0 ]; }
until_true two_cats
step "programs run there" $? "$(scifrun -n 1 ps)"
kill $client
wait $client
until_true no_cats
step "programs end with scifrun" $? "$(scifrun -n 1 ps)"

# A program that catches SIGHUP has time to clean up; one that ignores it ends nevertheless.
both_ready() { [ "$(cat /tmp/ignores /tmp/catches 2> /dev/null | wc -l)" -eq 2 ]; }
no_hangups() { [ "$(scifrun -n 1 ps | grep -c ' hangup$')" -eq 0 ]; }
scifrun -n 1 hangup ignore > /tmp/ignores &
ignores=$!
scifrun -n 1 hangup /tmp/hangup > /tmp/catches &
catches=$!
until_true both_ready
step "programs that SIGHUP does not end run there" $? "$(scifrun -n 1 ps)"
kill $ignores $catches
wait $ignores $catches
until_true no_hangups
step "programs that SIGHUP does not end end with scifrun" $? "$(scifrun -n 1 ps)"
check "time to clean up" "$(scifrun -n 1 cat /tmp/hangup)" "caught"

# The end of a program is not the end of what it leaves in the background.
for port in 4011 4012 4013 4014 4015 4016 4017 4018; do
    scifrun -n 1 sh -c "cat /scheme/scif/accept/$port > /dev/null 2>&1 < /dev/null &"
done
eight_cats() { [ "$(cats)" -eq 8 ]; }
until_true eight_cats
step "background programs go on" $? "$(scifrun -n 1 ps)"
# All processes of a user are those that came from other nodes, too.
nine_cats() { [ "$(cats)" -eq 9 ]; }
scifrun -n -u 5 1 sh -c "cat /scheme/scif/accept/4019 > /dev/null 2>&1 < /dev/null &"
until_true nine_cats
step "a user's goes on, too" $? "$(scifrun -n 1 ps)"
scifrun -n -u 5 1 sh -c 'kill -TERM -1'
until_true eight_cats
step "and ends by a signal to all of the user's" $? "$(scifrun -n 1 ps)"
scifrun -n 1 sh -c 'kill $(ps | grep " cat$" | while read pid rest; do echo $pid; done)'
until_true no_cats
step "and can be ended" $? "$(scifrun -n 1 ps)"

# Twenty at once.
all=""
for number in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
    scifrun -n 1 echo "$number" > "/tmp/many-$number" &
    all="$all $!"
done
wait $all
check "many at once" "$(cat /tmp/many-* | wc -l)" "20"

nothing_left() { [ "$(scifctl stats endpoints)" -le "$before" ]; }
until_true nothing_left
step "nothing is left" $? "$(scifctl connections)"
echo bye | scifrun 1 sh -c 'cat > /tmp/bye'
exit $failed
