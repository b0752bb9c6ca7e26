# The small programs, each with its options. Prints only what is wrong; status 0 when nothing is.
failures=0

check() {
    if [ "$2" != "$3" ]; then
        echo "tools: $1: expected '$2', got '$3'"
        failures=$((failures + 1))
    fi
}

rm -rf /tmp/tools
mkdir -p /tmp/tools/a/b
cd /tmp/tools
seq 5 >five
printf 'one\ntwo words\n\nlast' >text

check seq "2 4 6" "$(echo $(seq 2 2 7))"
check seq_down "3 2 1" "$(echo $(seq 3 -1 1))"
check head "1 2" "$(echo $(head -n 2 five))"
check head_bytes 1 "$(head -c 1 five)"
check head_unended "one two words last" "$(echo $(head text))"
check tail "4 5" "$(echo $(tail -n 2 five))"
check tail_unended last "$(tail -n 1 text)"
check wc "3 4 19 text" "$(wc text)"
check wc_lines 5 "$(wc -l <five)"
check wc_total "8 total" "$(wc -l five text | tail -n 1)"
check grep "two words" "$(grep words text)"
check grep_count 2 "$(grep -c o text)"
check grep_invert last "$(grep -v o text | tail -n 1)"
check grep_pattern 1 "$(printf "1 up\n0 1\n" | grep -c "^1 ")"
check grep_several "3 3" "$(grep -c -e words -e last -e one text) $(grep -c "$(printf 'one\nwords\nlast')" text)"
grep -q nothing text
check grep_status 1 $?
check cut "b:d" "$(echo a:b:c:d | cut -d : -f 2,4)"
check tr "HELLO" "$(echo hello | tr a-z A-Z)"
check tr_delete "ac" "$(echo abc | tr -d b)"
check sort "1 2 10" "$(echo $(printf '10\n1\n2\n' | sort -n))"
check sort_keys "b:1 a:2" "$(echo $(printf 'a:2\nb:1\n' | sort -t : -k 2))"
check sed "one 2 words" "$(sed -n 's/two/one 2/p' text)"
check sed_quit "1 2" "$(echo $(sed 2q five))"
check sed_last 5 "$(sed -n '$p' five)"
check grep_extended "2" "$(grep -c -E '^(one|two)' text)"
check grep_options "4:last" "$(grep -in LAST text)"
check grep_only "tw wo wo" "$(echo $(grep -o 'tw\|wo' text; echo two | grep -o wo))"
check grep_names text "$(grep -l two five text)"
check less_copies "$(cat text)" "$(less text)"
check less_pipe 5 "$(seq 5 | less | tail -n 1)"
less no-such-file 2>/dev/null
check less_nothing 1 $?
mkdir -p /tmp/tools/found/below
touch found/x.c found/below/y.c found/z
check find "found/below/y.c found/x.c" "$(echo $(find found -name '*.c'))"
check find_type "found found/below" "$(echo $(find found -type d))"
check find_depth "found found/below found/x.c found/z" "$(echo $(find found -maxdepth 1))"
mv found/z found/below
check mv "below x.c z y.c" "$(echo $(ls found | sort) $(ls found/below | sort -r))"
mv found/below moved
check mv_directory "y.c z x.c" "$(echo $(ls moved | sort) $(ls found))"
mv moved found
check mv_into "found/moved/y.c found/moved/z" "$(echo $(find found/moved -type f | sort))"
mv found found/moved/deeper 2>/dev/null
check mv_into_itself "1 x.c" "$? $(ls found | grep x)"
cp -r found/moved copied
check cp_recursive "copied/y.c copied/z" "$(echo $(find copied -type f | sort))"
cp copied elsewhere 2>/dev/null
check cp_directory "1 1" "$? $(test -e elsewhere; echo $?)"
cp -r copied copied/inside
check cp_into_itself "inside y.c z" "$(echo $(ls copied | sort))"
mv /tmp/tools/no-such-file elsewhere 2>/dev/null
check mv_nothing 1 $?
rm -r found copied
check hostname host "$(hostname)"
check uname "Skiff host" "$(uname -sn)"
check id "uid=0(root) gid=0(root)" "$(id)"
check whoami root "$(whoami)"
check whoami_other 5 "$(as 5 whoami)"
for program in rm poweroff reboot cat grep uptime; do
    check "help of $program" "usage: $program" "$($program --help | head -n 1 | cut -c 1-$((7 + ${#program})))"
    check "version of $program" "$program (Skiff)" "$($program --version | cut -d ' ' -f 1,2)"
done
date nonsense 2>other
check unknown_argument "2 date: \`nonsense\` is not understood" "$? $(head -n 1 other)"
poweroff now 2>other
check unknown_argument_of_poweroff 2 $?
init 2>other
check init "2 init: starts the services as process 1, and runs already" "$? $(cat other)"
check man "usage: cut" "$(man cut | head -n 1 | cut -c 1-10)"
check help 2 "$(help | grep -c -E '^  (cut|scifrun) ')"
check home /root "$(cd; pwd)"

check tee "1 2 3 4 5" "$(cat five | tee copy other >/dev/null; echo $(cat copy))"
cmp copy other
check tee_files 0 $?
check cmp "copy text differ: byte 1, line 1" "$(cmp copy text)"
echo more >>other
check cmp_end "copy ends after byte 10" "$(cmp copy other)"
cmp none copy 2>/dev/null
check cmp_missing 2 $?
check hexdump "00000000  6f 6e 65                                         |one|" \
    "$(head -c 3 text | hexdump)"
check cat_many "5 1" "$(echo $(cat five five | tail -n 6 | head -n 2))"
check cat_stdin "one 1" "$(echo $(head -n 1 text | cat - five | head -n 2))"
check sha256 ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad \
    "$(printf abc | sha256sum | head -c 64)"
check echo "a	b" "$(/scheme/initfs/bin/echo -e 'a\tb')"
check printf "007 x" "$(/scheme/initfs/bin/printf '%03d %s' 7 x)"
/scheme/initfs/bin/test 3 -gt 2
check test 0 $?
/scheme/initfs/bin/test -d five
check test_directory 1 $?
/scheme/initfs/bin/test 1 -eq x 2>/dev/null
check test_error 2 $?
check pwd /tmp/tools "$(/scheme/initfs/bin/pwd)"
check env "value" "$(env NAME=value sh -c 'echo $NAME')"
env nosuch 2>/dev/null
check env_missing 127 $?
check as 1000 "$(as 1000 touch /tmp/theirs; ls -l /tmp/theirs | { read mode uid rest; echo $uid; })"
as 1000 rm /tmp/theirs
check as_rm 0 $?

rmdir a 2>/dev/null
check rmdir_full 1 $?
rmdir a/b a
check rmdir 0 $?
mkdir five 2>/dev/null
check mkdir_exists 1 $?
cp five text a 2>/dev/null
check cp_several 1 $?
mkdir a
cp five text a
check cp_directory "five text" "$(echo $(ls a))"
check ls_list "a copy five other text" "$(echo $(ls))"
check ls_hidden 0 "$(touch .hidden; ls | grep -c hidden)"
check ls_all 1 "$(ls -a | grep -c hidden)"
ls none 2>/dev/null
check ls_missing 1 $?
cp five five 2>/dev/null
check cp_itself "1 5" "$? $(wc -l <five)"
rm none 2>/dev/null
check rm_missing 1 $?
rm -f none
check rm_force 0 $?

touch /tools-root
mkdir empty
touch empty/tools-root
(cd empty; rm -rf "$unset_variable")
check rm_empty_path "0 tools-root" "$(test -e /tools-root; echo $? $(ls empty))"
rm -r /tools-root empty
cp -r "" copied 2>/dev/null
check cp_empty_path "1 1" "$? $(test -e copied; echo $?)"
check test_empty_path "1 1" "$([ -e "" ]; echo $?) $([ -d "" ]; echo $?)"
check mkdir_empty_path "mkdir: : No such file or directory" "$(mkdir "" 2>&1)"

echo noon >log-12:30
check colon "noon log-12:30" "$(cat log-12:30) $(ls log-12:30)"
rm log-12:30
mkdir -p colons/below /tools-colon
touch colons/file:tools-colon
(cd colons; rm -r *)
check rm_colon "0 " "$(test -d /tools-colon; echo $?) $(ls colons)"
rm -r colons /tools-colon
check colon_of_scif "$(cat /scheme/scif/nodes)" "$(cat scif:nodes)"

mkdir slashes
mv five slashes-new/ 2>/dev/null
check mv_slash "1 1" "$? $(test -e slashes-new; echo $?)"
(echo x >slashes-new/) 2>/dev/null
check redirection_slash "1 1" "$? $(test -e slashes-new; echo $?)"
rm five/ 2>/dev/null
check rm_slash "1 0" "$? $(test -f five; echo $?)"
check test_slash "1 1 0" "$(test -f five/; echo $?) $(test -e five/; echo $?) $(test -d slashes/; echo $?)"
touch text slashes-file
check glob_slash "slashes/" "$(echo slashes*/)"
mv slashes slashes-new/
check mv_directory_slash slashes-new "$(echo slashes-new*)"
rm -r slashes-new slashes-file

mkdir -p refused/inside
(cd refused/inside; rm -r . .. ../inside/.. ./ 2>../../wrong)
check rm_refused "1 4 inside" "$? $(wc -l <wrong) $(ls refused)"
rm -r refused wrong
rm -rf / 2>/dev/null
check rm_root 1 $?

for program in scifctl scif-perf; do
    check "version of $program" "$program (Skiff)" "$($program --version | cut -d ' ' -f 1,2)"
    $program --none 2>/scheme/null
    check "wrong option of $program" 2 $?
    $program --help >&- 2>/scheme/null
    check "closed output of $program" 1 $?
done
scif-perf 1 2 2>/scheme/null
check perf_words 2 $?
cmp five text >&- 2>/scheme/null
check cmp_closed_output 2 $?

mkdir dashes
cd dashes
echo dash >-x
check dashes_read "dash dash dash 1" "$(echo $(cat -- -x; head -n 1 -- -x; tail -- -x; wc -l <-x))"
check dashes_names "-x -x" "$(echo $(ls -- -x; wc -l -- -x | cut -d ' ' -f 2))"
check dashes_bytes "1 -x" "$(hexdump -- -x | wc -l) $(sha256sum -- -x | cut -c 67-)"
cmp -- -x -x
check dashes_cmp 0 $?
echo tee | tee -- -t >/scheme/null
mkdir -- -d
touch -- -f
check dashes_make "-d -f -t -x" "$(echo $(ls))"
rmdir -- -d
rm -R -- -f -t -x
check dashes_remove "0 " "$? $(ls)"
/scheme/initfs/bin/printf -- '%s\n' x >printed
check dashes_printf x "$(cat printed)"
check dashes_others "-2 -1 5 usage: cat" "$(echo $(seq -- -2 -1; as -- 5 whoami; man -- cat | cut -c 1-10 | head -n 1))"
sleep -- 60 &
/scheme/initfs/bin/kill -- $!
wait $!
check dashes_kill 143 $?
cat -u printed 2>/dev/null
check unknown_option_of_cat 2 $?
cd ..
rm -r dashes

mkdir listed
touch listed/in
check ls_files_first "five text listed: in" "$(echo $(ls listed five text))"
check ls_separators "0 1" "$(ls five text | grep -c '^$') $(ls listed five text | grep -c '^$')"
rm -r listed

check grep_no_words "1 1" "$(echo 'a -x b' | grep -c -w -e -x) $(echo a-x | grep -c -v -w -e -x)"
grep -q words none text 2>/dev/null
check grep_quiet_error 0 $?
check sed_set "a(b xb a/c" "$(echo $(echo 'a[b' | sed 's/[[]/(/'; echo '\b' | sed 's/[\]/x/'; echo abc | sed 's/[[:alpha:]]/\//2'))"
check tr_bytes "ff 62 80" "$(printf '\000b\200' | tr '\0' '\377' | hexdump | cut -c 11-18)"
check head_leaves "1 2 3 4 5" "$(echo $({ head -n 1; cat; } <five))"
check sed_leaves "1 2 3 4 5" "$(echo $({ sed 2q; cat; } <five))"
check grep_leaves "4 5" "$(echo $({ grep -q 3; cat; } <five))"
check head_titles "==> five <== 1 ==> text <== one" "$(echo $(head -n 1 five text))"
check dd_fullblock 10 "$(cat five | dd bs=64 iflag=fullblock status=none | wc -c)"
check env_nothing "A=1 B=2" "$(echo $(C=3 env -i A=1 B=2 | sort))"
env sleep 60 &
as 5 sleep 60 &
kill %1 %2
# A child that has ended is in the list until its parent has waited for it.
wait
check env_becomes_program 0 "$(ps | grep -c ' sleep')"

as 1000 mkdir /tmp/theirs /tmp/theirs/a
as 1000 touch /tmp/theirs/a/f
mkdir /tmp/theirs/b
touch /tmp/theirs/b/f
as 1000 rm -r /tmp/theirs 2>wrong
check rm_goes_on "1 b rm: /tmp/theirs/b/f: Permission denied" "$? $(echo $(ls /tmp/theirs) $(cat wrong))"
check test_rights "1 0 1 0" "$(as 1000 test -w /tmp/theirs/b; echo $?) $(as 1000 test -r five; echo $?) \
$(as 1000 test -x five; echo $?) $(test -w five; echo $?)"
rm -r /tmp/theirs wrong
cp -r /dev/shm shared
check cp_mode drwxrwxrwx "$(ls -l | grep shared | cut -c 1-10)"
rmdir shared
attributes() { ls -l "$1" | cut -c 1-22; }
mv /scheme/initfs/bin/true elsewhere 2>/dev/null
check mv_copies_only 1 $?
check mv_attributes "$(attributes /scheme/initfs/bin/true)" "$(attributes elsewhere)"
rm elsewhere
mv five /none/five 2>wrong
check mv_names_both "mv: five to /none/five: No such file or directory" "$(cat wrong)"
rm wrong

check dd "10" "$(dd if=five bs=3 status=none | wc -c)"
check dd_count 4 "$(dd if=five bs=2 count=2 status=none | wc -c)"
check dd_skip "4 5" "$(echo $(dd if=five bs=2 skip=3 status=none))"
dd if=five bs=0 2>/dev/null
check dd_block_size 2 $?
dd colour=red 2>/dev/null
check dd_argument 2 $?

sleep x 2>/dev/null
check sleep_usage 2 $?
/scheme/initfs/bin/kill 99999 2>/dev/null
check kill_nobody 1 $?
sleep 60 &
/scheme/initfs/bin/kill $!
wait $!
check kill 143 $?
check date 1 "$(date | grep -c UTC)"
check free 3 "$(free | wc -l)"
check ps 1 "$(ps | grep -c ' init')"
for service in ramfs logd micd scifrund procmgr; do
    check "help of $service" "usage: $service" "$($service --help | head -n 1 | cut -d ' ' -f 1,2)"
    $service none of these 2>/dev/null
    check "wrong words for $service" 2 $?
    check "man $service" "usage: $service" "$(man $service | head -n 1 | cut -d ' ' -f 1,2)"
done

# The memory of a large file goes back to the system with it.
free_kib() { free | sed -n 's/free \([0-9]*\) KiB/\1/p'; }
before=$(free_kib)
dd if=/dev/zero of=large bs=65536 count=320 2>/dev/null
taken=$((before - $(free_kib)))
rm large
kept=$((before - $(free_kib)))
check file_takes_memory 0 "$([ $taken -ge 20000 ]; echo $?)"
check rm_gives_it_back 0 "$([ $kept -lt 4000 ]; echo "$? of $taken KiB $kept stay" | sed 's/^0 .*/0/')"
dmesg >/dev/null
check dmesg 0 $?
check rand differ "$(head -c 16 /scheme/rand >r1; head -c 16 /scheme/rand >r2; cmp -s r1 r2 || echo differ)"

cd /
rm -rf /tmp/tools
exit $failures
