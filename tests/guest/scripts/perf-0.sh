# Every test of scif-perf and scif-bare, against node 1 (perf-1.sh) and inside the node, as few
# times as they allow: each must print its line, and fails by itself when wrong bytes arrive.

. /scheme/initfs/lib/steps.sh

out=/tmp/perf

# expect NAME SIZE UNIT: there is a line of this test with this size, with numbers in it.
expect() {
    line="^{.test.:.$1.,.size.:$2,.*.unit.:.$3.,.n.:[1-9].*.p50.:[1-9].*.repetitions.:\[[1-9].*\]}$"
    if grep -q "$line" "$out"; then
        echo "STEP perf $1 $2: ok"
    else
        echo "STEP perf $1 $2: FAIL no line of it"
        failed=1
    fi
}

# run PROGRAM WORDS...: it must end with 0.
run() {
    if "$@" >"$out"; then
        echo "STEP perf run $*: ok"
    else
        echo "STEP perf run $*: FAIL status $?"
        failed=1
    fi
}

few="--json --repetitions 1 --budget-ms 1"

# Limits and ours in turn.
run scif-bare 1 $few -n 50 --test bare_pingpong+pio_rtt+msg_rtt --size 64 --poll
expect bare_pingpong 8 ns
expect pio_rtt 8 ns
expect msg_rtt_poll 64 ns
run scif-bare 1 $few -n 20 --test bare_doorbell+msg_rtt --size 64 --block
expect bare_doorbell 8 ns
expect msg_rtt_block 64 ns
run scif-bare 1 $few --test bare_write+rma_write,bare_read+rma_read --size 64,4K --stop
for direction in write read; do
    expect bare_$direction 64 bytes_per_s
    expect rma_$direction 4096 bytes_per_s
done

run scif-perf 1 $few -n 20 --size 64,4K --test latency,bandwidth,others
expect pio_rtt 8 ns
for test in ring_rtt msg_rtt_poll msg_rtt_block; do
    expect $test 64 ns
    expect $test 4096 ns
done
for test in rma_write rma_read pio_write pio_read vrma_write vrma_read local_copy; do
    expect $test 64 bytes_per_s
    expect $test 4096 bytes_per_s
done
for test in stream stream_read file_stream file_stream_read; do
    expect $test 64 bytes_per_s
    expect $test 4096 bytes_per_s
done
expect nodes_rtt 2 ns

run scif-perf 1 $few -n 20 --size 4K --test transfers
for test in st_rtt st_put_rtt; do
    expect $test 8 ns
done
expect st_stream 32 bytes_per_s
expect st_put 4096 bytes_per_s
expect st_get 4096 bytes_per_s

run scif-perf 1 $few -n 20 --size 4K --max 16 --test verbs
expect rdma_write_rtt 8 ns
expect rdma_send_rtt 64 ns
expect rdma_stream 64 bytes_per_s
expect rdma_write 4096 bytes_per_s
expect rdma_read 4096 bytes_per_s
for count in 1 16; do
    expect rdma_pairs_rtt $count ns
done

run scif-perf 1 $few -n 20 --size 4K,64K --pairs 1,3 --test costs
for test in register unregister map unmap; do
    expect $test 4096 ns
    expect $test 65536 ns
done
expect connect 1 ns
expect close 1 ns
expect pairs 1 per_s
expect pairs 3 per_s

run scif-perf 1 $few -n 20 --max 10 --test growth
for test in idle_rtt windows_rma windows_rtt; do
    expect $test 1 ns
    expect $test 10 ns
done
for count in 1 10; do
    expect st_idle_rtt $count ns
done
expect pages_rma 1 ns
expect pages_rtt 1 ns

run scif-perf 1 $few -n 20 --test beside
for place in idle own peer; do
    expect echo_$place 64 ns
    expect register_$place 262144 ns
done

# More messages than fit into the queues of one pair.
run scif-perf 1 $few -n 3000 --max 16 --test rdma_pairs
expect rdma_pairs_rtt 16 ns

# More bytes than a page has.
run scif-perf 1 $few -n 20 --size 8K --test ring_rtt
expect ring_rtt 8192 ns

# refused WORDS...: these arguments are wrong.
refused() {
    scif-perf "$@" >/scheme/null 2>"$out"
    status=$?
    if [ "$status" -eq 2 ]; then
        echo "STEP perf refused $*: ok"
    else
        echo "STEP perf refused $*: FAIL status $status, $(cat "$out")"
        failed=1
    fi
}

refused 1 --test connect --port 65531
refused 1 --test pio_rtt -n 18446744073709551615
refused 1 --test msg_rtt --size 64G
refused 1 --test pio_rtt --budget-ms 18446744073709551615
refused 1 --test pio_rtt --repetitions 4294967295
refused 1 --test pairs --pairs 1G
for test in register own_register copy_register map register_idle; do
    refused 1 --test $test --size 8
done
refused -s 1

# The server closes the idle connections of a client that was interrupted when the next one comes.
there() { scifrun -n 1 scifctl stats endpoints; }
idle_there() { [ "$(there)" -gt 100 ]; }
scif-perf 1 --quiet --test idle --max 100 >/scheme/null 2>&1 &
client=$!
until_true idle_there
step "perf idle connections" $? "$(there)"
kill -9 "$client"
wait "$client"
tries=0
while [ "$(there)" -ge 50 ] && [ "$tries" -lt 10 ]; do
    tries=$((tries + 1))
    scif-perf 1 $few -n 20 --size 64 --test msg_rtt --block >/scheme/null
done
[ "$(there)" -lt 50 ]
step "perf idle connections are closed" $? "$(there)"

run scif-perf 1 $few -n 20 --size 64 --test msg_rtt --path file --block --stop
expect msg_rtt_block 64 ns

# Inside the node polling lets the other side run.
scif-perf -s --port 1300 &
run scif-perf 0 $few -n 20 --size 64 --test latency,ring_rtt,rma_read --port 1300 --stop
expect pio_rtt 8 ns
expect ring_rtt 64 ns
expect msg_rtt_poll 64 ns
expect rma_read 64 bytes_per_s
wait $! || failed=1

# Mistakes are told, not measured.
# mistake MESSAGE WORDS...: it fails, and says so.
mistake() {
    message=$1
    shift
    if scif-perf "$@" >"$out" 2>&1 || ! grep -q "$message" "$out"; then
        echo "STEP perf refuses $*: FAIL it said: $(cat "$out")"
        failed=1
    fi
}

mistake "say -s"
mistake "no test 'nonsense'" 1 --test nonsense
mistake "no test 'nonsense'" 1 --test pio_rtt+nonsense
mistake "'0' is no size" 1 --size 0
mistake "no option --what (--help lists them)" --what
mistake "'x' is no node number" x
exit "$failed"
