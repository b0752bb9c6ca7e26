# The programs for RDMA verbs of the image: the device, what uses it, and measurements in one node.

. /scheme/initfs/lib/steps.sh

ibv_devices | grep -q 'scif0  *	02534b4900000000'
step devices $? "$(ibv_devices)"
ibv_devinfo | grep -q 'state: *PORT_ACTIVE (4)' && [ "$(ibv_devinfo | wc -l)" -lt "$(ibv_devinfo -v | wc -l)" ]
step devinfo $? "$(ibv_devinfo)"
ibv_devinfo -v | grep -q 'max_qp_wr: *16384'
step devinfo-v $? "$(ibv_devinfo -v)"
[ "$(ibv_devinfo -l)" = "1 HCA found:
	scif0" ]
step devinfo-l $? "$(ibv_devinfo -l)"
! ibv_devinfo -d mlx5_0 2> /dev/null
step another-device $? "it is there"
ib-perf -s &
server=$!
is_served() { [ "$(ibctl contexts | wc -l)" -ge 2 ]; }
until_true is_served || failed=1
ib-perf 0 -n 100 --repetitions 2 --depth 16 --size 4K --json > /tmp/perf
step perf $? "$(cat /tmp/perf)"
cat /tmp/perf
for test in send_lat write_lat read_lat atomic_lat send_bw send_rate write_bw write_rate read_bw read_rate atomic_rate; do
    grep -q "\"test\":\"$test\",.*\"wait\":\"poll\".*\"p50\":.*\"p99\":" /tmp/perf
    step "perf-$test" $? "no such line"
done
ib-perf 0 -n 50 --test send_lat,read_lat --events --repetitions 1
step perf-events $? "no result"
for words in "0 --test nothing" "0 --none" "0 -n 0" "0 1" "-s 0" ""; do
    ib-perf $words 2> /dev/null
    [ $? -eq 2 ]
    step "perf-usage $words" $? "another status"
done
ib-perf 9 --test read_lat --stop > /tmp/out 2> /tmp/err
[ "$? $(grep -c '^ib-perf: ' /tmp/err)" = "1 2" ]
step perf-both-errors $? "$(cat /tmp/err)"
ib-perf 0 -n 20 --test send_lat --depth 1 --repetitions 1
step perf-depth-1 $? "no result"
for program in ib-perf ibctl ibv_devices; do
    $program --version | grep -q "^$program (Skiff) "
    step "version $program" $? "$($program --version)"
done
for program in ib-perf ibctl ibv_devices ibv_devinfo; do
    $program --help >&- 2> /dev/null
    [ $? -eq 1 ]
    step "closed-output $program" $? "another status"
done
for program in ibctl ibv_devices ibv_devinfo; do
    $program >&- 2> /dev/null
    [ $? -eq 1 ]
    step "closed-output-of-a-table $program" $? "another status"
done
# A stream goes on while it is watched.
ib-perf 0 --test write_bw --size 64K -n 1000000 --repetitions 1 > /dev/null 2>&1 &
client=$!
is_streaming() { ibctl qps | grep -q RTS; }
until_true is_streaming || failed=1
ibctl watch 1 3 > /tmp/watched
grep -qE ' RC +RTS +0x1 +[0-9]+ +[0-9]+ +[0-9]+ +[1-9][0-9]* .* ib-perf$' /tmp/watched
step watch $? "$(cat /tmp/watched)"
ibctl programs "$client" | grep -q ' qp .*RC-RTS' && ibctl programs "$client" | grep -q ' mr '
step programs $? "$(ibctl programs)"
ibctl | grep -q 'contexts, .* completion queues, .* memory regions'
step overview $? "$(ibctl)"
ibctl fabric | grep -q '^ *1  *ACTIVE  *4X-EDR  *0  *0x1 '
step fabric $? "$(ibctl fabric)"
[ "$(ibctl agents | head -n 1 | grep -c ' agent .* rmpp ')" = 1 ]
step agents $? "$(ibctl agents)"
kill -9 "$client"
wait "$client"
holds_nothing() { [ "$(ibctl programs "$1" | wc -l)" -eq 1 ]; }
until_true holds_nothing "$client"
step cleaned $? "$(ibctl programs)"
[ "$(ibctl stats sends)" -gt 0 ] && [ "$(ibctl stats sent_bytes)" -gt 0 ]
step stats $? "$(ibctl stats)"
[ "$(cat /scheme/infiniband/class/infiniband/scif0/ports/1/counters/port_xmit_packets)" -gt 0 ]
step port-counters $? "none"
ibctl limits contexts_per_user 300 && ibctl limits | grep -q 'contexts_per_user *300'
step limits $? "$(ibctl limits)"
! ibctl nothing 2> /dev/null && ! ibctl stats nothing 2> /dev/null
step mistakes $? "they were understood"
# Whoever reads a table that is printed again and again need not read to the end.
for program in ibctl scifctl; do
    $program watch 1 | head -n 1 > /dev/null
    step "watch-ends $program" 0
done
ib-perf 0 --test read_lat -n 10 --repetitions 1 --stop
step stop $? "no result"
wait "$server"
step server $? "its status"
exit "$failed"
