# Files of Scheduled Transfers within one node: what echo and cat send and receive.

. /scheme/initfs/lib/steps.sh

stp=/scheme/scif/stp

# reach PORT: connects, as descriptor 7, once somebody accepts there.
reach() {
    tries=0
    until { exec 7<> "$stp/0/$1"; } 2> /dev/null || [ "$tries" -gt 600 ]; do
        tries=$((tries + 1))
        sleep 0.1
    done
}

cat "$stp/accept/2060" > /tmp/got &
reach 2060
echo one >&7
echo two >&7
exec 7>&-
wait $!
step stp-greeting $? "cat: status $?"
[ "$(cat /tmp/got)" = "one
two" ]
step stp-text $? "received '$(cat /tmp/got)'"

cat /scheme/initfs/boot/kernel > /tmp/sent
cat "$stp/accept/2061" > /tmp/got &
reach 2061
cat /tmp/sent >&7
exec 7>&-
wait $!
cmp /tmp/sent /tmp/got
step stp-file $? "the files differ"
rm /tmp/sent /tmp/got

[ "$(ls "$stp")" = "0
accept
listen" ]
step stp-directory $? "$(ls "$stp")"
echo x 2> /dev/null > "$stp/0/2999"
[ $? -ne 0 ]
step stp-refused $? "a port without a listener was opened"
echo x 2> /dev/null > "$stp/nodes"
[ $? -ne 0 ]
step stp-unknown $? "a name that does not exist was opened"
exit "$failed"
