# The scif: scheme as ordinary files, from the shell, inside one node (node 0 with itself). Prints
# only what is wrong; status 0 when nothing is.
failures=0

check() {
    if [ "$2" != "$3" ]; then
        echo "scif: $1: expected '$2', got '$3'"
        failures=$((failures + 1))
    fi
}

# listening PORT: waits until somebody listens there, at most a minute or so.
listening() {
    tries=0
    until grep -q "$1  listening" /scheme/scif/ports || [ "$tries" -ge 600 ]; do
        tries=$((tries + 1))
        sleep 0.1
    done
}

cat </scheme/scif/accept/2050 >/tmp/got &
listening 2050
echo hello >/scheme/scif/0/2050
wait
check greeting hello "$(cat /tmp/got)"

cat /scheme/scif/accept/2051 | sha256sum >/tmp/got &
listening 2051
cat /scheme/initfs/bin/sh >/scheme/scif/0/2051
wait
check file "$(sha256sum </scheme/initfs/bin/sh)" "$(cat /tmp/got)"

# Odd block sizes and a reader that pauses.
dd if=/scheme/rand bs=4093 count=50 of=/tmp/random status=none
dd if=/scheme/scif/accept/2052 bs=777 pause=0.001 of=/tmp/got status=none &
listening 2052
dd if=/tmp/random of=/scheme/scif/0/2052 bs=1001 status=none
wait
cmp /tmp/random /tmp/got
check odd_sizes 0 $?

# Both directions over one connection, with descriptors of the shell.
{
    exec 3<>/scheme/scif/accept/2053
    read line <&3
    echo "you said $line" >&3
} &
listening 2053
exec 4<>/scheme/scif/0/2053
echo ping >&4
read answer <&4
check answer "you said ping" "$answer"
read more <&4
check end 1 $?
exec 4<&-
wait

# Errors by name.
check refused "cat: /scheme/scif/0/9999: Connection refused" "$(cat /scheme/scif/0/9999 2>&1)"
check no_node "cat: /scheme/scif/7/9999: No such device" "$(cat /scheme/scif/7/9999 2>&1)"
check bad_port "cat: /scheme/scif/0/65536: Invalid argument" "$(cat /scheme/scif/0/65536 2>&1)"
check no_path "cat: /scheme/scif/none: No such file or directory" \
    "$(cat /scheme/scif/none 2>&1)"
check directory "cat: /scheme/scif: Is a directory" "$(cat /scheme/scif 2>&1)"
check privileged "cat: /scheme/scif/accept/100: Permission denied" \
    "$(as 1000 cat /scheme/scif/accept/100 2>&1)"

# A listener that is killed leaves its port.
cat /scheme/scif/accept/2054 >/dev/null &
listening 2054
kill $!
wait $!
check killed 143 $?
tries=0
while grep -q 2054 /scheme/scif/ports && [ "$tries" -lt 600 ]; do
    tries=$((tries + 1))
    sleep 0.1
done
check port_free 0 "$(grep -c 2054 /scheme/scif/ports)"

rm /tmp/got /tmp/random
exit $failures
