# Pipes, background jobs and redirections with real processes. Prints only what is wrong.
failures=0

check() {
    if [ "$2" != "$3" ]; then
        echo "processes: $1: expected '$2', got '$3'"
        failures=$((failures + 1))
    fi
}

check pipe 3 "$(seq 10 12 | wc -l)"
check long_pipe 20000 "$(seq 20000 | cat | cat | tail -n 1)"
check compound_in_pipe "b a" "$( { echo a; echo b; } | { read x; read y; echo $y $x; } )"
check pipe_status 1 "$(true | false; echo $?)"
check early_end y "$(yes | head -n 1)"

sleep 0.3 &
first=$!
sleep 0.1 &
wait $!
check wait_pid 0 $?
wait $first
check wait_other 0 $?
(exit 7) &
wait $!
check job_status 7 $?

sleep 60 &
kill -9 $!
wait $!
check killed 137 $?

# A redirection does not put a shell between us and the program.
cat </dev/zero >/dev/null &
kill $!
wait $!
check kill_redirected 143 $?
check nobody_left 0 "$(ps | grep -c ' cat')"
check exec "became" "$(sh -c 'exec echo became; echo never')"

# Side by side: each job waits until all four have begun. One after the other, the first would wait
# in vain. `wait` waits for all of them, also for what they do then.
mkdir -p /tmp/side
all_began() {
    [ -e /tmp/side/1 ] && [ -e /tmp/side/2 ] && [ -e /tmp/side/3 ] && [ -e /tmp/side/4 ]
}
meet() {
    echo began >"/tmp/side/$1"
    tries=0
    until all_began || [ "$tries" -gt 600 ]; do
        tries=$((tries + 1))
        sleep 0.1
    done
    all_began || return 1
    sleep 0.5
    echo met >"/tmp/side/met-$1"
}
for i in 1 2 3 4; do meet "$i" & done
wait
check side_by_side "1 2 3 4 met-1 met-2 met-3 met-4" "$(cd /tmp/side; echo *)"
rm -rf /tmp/side
check uptime 1 "$(uptime | grep -c '^[0-9]*\.[0-9]* s$')"

rm -rf /tmp/t
mkdir -p /tmp/t/sub
cd /tmp/t
echo one >file
echo two >>file
check append "one two" "$(echo $(cat file))"
check input 2 "$(wc -l <file)"
seq 1000 >numbers
cp numbers sub/copy
cmp numbers sub/copy
check cmp 0 $?
check same_hash "$(sha256sum <numbers)" "$(sha256sum <sub/copy)"
echo x >>sub/copy
cmp -s numbers sub/copy
check differ 1 $?
check glob "file numbers sub" "$(echo *)"
check pattern "sub/copy" "$(echo s?b/c*)"
cat none 2>errors
check missing_status 1 $?
check missing_text "cat: none: No such file or directory" "$(cat errors)"
cat sub 2>errors
check directory_text "cat: sub: Is a directory" "$(cat errors)"
echo 'echo $1-$0; exit 9' >script
sh script arg >out
check script_status 9 $?
check script "arg-script" "$(cat out)"
check no_interpreter "arg-./script" "$(./script arg)"
rm file
[ -e file ]
check removed 1 $?
rm sub 2>/scheme/null
check rm_directory 1 $?
dd if=/scheme/zero bs=4097 count=100 of=zeros status=none
check dd_size "409700" "$(wc -c <zeros)"
check sha_zero 30e14955ebf1352266dc2ff8067e68104607e750abb9d3b36582b8af909fcb58 \
    "$(dd if=/scheme/zero bs=65536 count=16 status=none | sha256sum | head -c 64)"
cd /
rm -rf /tmp/t
[ -e /tmp/t ]
check rm_r 1 $?

check null 0 "$(echo x >/dev/null; wc -c </dev/null)"
check zero 5 "$(head -c 5 /dev/zero | wc -c)"

exec 3>/tmp/three
echo three >&3
exec 3>&-
check descriptor three "$(cat /tmp/three)"
rm /tmp/three
as 1000 sh -c 'echo x >/file' 2>/scheme/null
check not_root 1 $?

exit $failures
