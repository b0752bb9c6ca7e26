# The other side of stp-0.sh.

. /scheme/initfs/lib/steps.sh

stp=/scheme/scif/stp

held() {
    grep -E '^(handles|waiting|endpoints|connections|windows|pinned_pages|mapped_pages) ' /scheme/scif/stats
}

scifctl wait 0
before=$(held)

exec 7<> "$stp/accept/2060"
read -r line <&7
[ "$line" = hello ]
step stp-greeting $? "received '$line'"
echo "hello yourself" >&7
exec 7>&-

sent=$(sha256sum < /scheme/initfs/boot/kernel)
got=$(cat "$stp/accept/2061" | sha256sum)
[ "$got" = "$sent" ]
step stp-file $? "sent $sent, received $got"

got=$(stp-file get 2062)
status=$?
[ "$status $got" = "0 [one
][two
]" ]
step stp-to-socket $? "status $status, received '$got'"
stp-file put 0 2063 alpha beta
step stp-from-socket $? "status $?"

# A stream, whose program sends a line of more than a record's length.
exec 7<> /scheme/scif/accept/2064
echo "this is no answer to a request of Scheduled Transfers, but some line of text that is long enough" >&7
cat <&7 > /dev/null
exec 7>&-
stp-file put 0 2070 heard

stp-file late 2065 2066 > /tmp/got
status=$?
[ "$status $(wc -c < /tmp/got)" = "201 0" ]
step stp-killed-writer $? "status $status, received $(wc -c < /tmp/got) bytes"
stp-file put 0 2067 cut

cat "$stp/accept/2068" > /tmp/got &
reader=$!
until_true grep -q first /tmp/got || failed=1
kill "$reader"
wait "$reader"

same() {
    [ "$(held)" = "$before" ]
}
until_true same
step stp-nothing-left $? "before: $before now: $(held)"
read -r line < /scheme/scif/accept/2069
exit "$failed"
