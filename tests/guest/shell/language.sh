# The shell's language, inside the image. Prints only what is wrong; status 0 when nothing is.
failures=0

# check NAME EXPECTED GOT
check() {
    if [ "$2" != "$3" ]; then
        echo "language: $1: expected '$2', got '$3'"
        failures=$((failures + 1))
    fi
}

check words "a  b c" "$(echo "a  b" c)"
x=5
check arithmetic 26 "$((x * x + 1))"
check default none "${unset_variable:-none}"
p=/usr/lib/name.tar.gz
check suffix "/usr/lib/name" "${p%%.*}"
check prefix name.tar.gz "${p##*/}"

s=''
for i in 1 2 3; do
    [ $i = 2 ] && continue
    s="$s$i"
done
check for 13 "$s"

n=0
while true; do
    n=$((n + 1))
    if [ $n -ge 10 ]; then break; fi
done
check while 10 $n

case abc.txt in
*.rs) s=rs ;;
*.txt | *.md) s=text ;;
esac
check case text $s
case é7 in
[[:digit:]]*) s=digit ;;
[[:alpha:]][![:alpha:]]) s=letter ;;
esac
check class letter $s

f() {
    local x=inner
    echo "$1 $x $#"
    return 3
}
check function "one inner 2" "$(f one two)"
f >/scheme/null
check return 3 $?
check local 5 $x

(x=changed)
check subshell 5 $x
check nested "in out" "$(echo $(echo in) out)"
false || s=or
check or or $s
! true
check not 1 $?
(exit 42)
check status 42 $?

check heredoc "x is 5" "$(cat <<END
x is $x
END
)"
check herestring word "$(cat <<<word)"

set -- a 'b c' d
check parameters 3 $#
s=''
for word in "$@"; do s="$s<$word>"; done
check quoted_parameters "<a><b c><d>" "$s"
shift 2
check shift d "$1"

check read "1|2 3" "$(echo 1 2 3 | { read a b; echo "$a|$b"; })"
{ exec 3<<<kept; } 2>/dev/null
check exec_in_group kept "$(cat <&3)"
exec 3<&-
nosuchprogram 2>/scheme/null
check not_found 127 $?
check stderr "sh-error" "$( { echo sh-error >&2; } 2>&1 )"

check broken_pipe "y 141" "$(echo $(while :; do echo y; done | head -n 1; set -o pipefail; while :; do echo; done | true; echo $?))"
check status_130 130 "$(sh -c 'exit 130'; echo $?)"
sh -c 'sh -c "kill -INT \$\$"; echo after' >/tmp/interrupted &
wait $!
check interrupted "130 " "$? $(cat /tmp/interrupted)"
rm /tmp/interrupted
command exec 3</tmp
check command_exec 0 $?
exec 3<&-

exit $failures
