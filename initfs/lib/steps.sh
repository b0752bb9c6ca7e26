# For scripts that report what they find. They begin with `. /scheme/initfs/lib/steps.sh` and end
# with `exit "$failed"`.

passed=0
failed=0

# step NAME STATUS DETAIL: reports a step, which went well if STATUS is 0. The launcher of the run
# reads these lines.
step() {
    if [ "$2" -eq 0 ]; then
        echo "STEP $1: ok"
        passed=$((passed + 1))
    else
        echo "STEP $1: FAIL $3"
        failed=$((failed + 1))
    fi
}

# until_true COMMAND [ARGUMENT…]: tries until the command succeeds, at most a minute or so; fails if
# it never does. It succeeds once only.
until_true() {
    tries=0
    until "$@"; do
        tries=$((tries + 1))
        [ "$tries" -lt 600 ] || return 1
        sleep 0.1
    done
}

# say_done NODE PORT: sends "done" to the program that accepts there, within some minutes, and waits
# until the connection is ended. Only then may this node be switched off: what the other driver has
# not taken from the link before is lost.
say_done() {
    tries=0
    until { exec 7<> "/scheme/scif/$1/$2"; } 2> /dev/null || [ "$tries" -gt 1200 ]; do
        tries=$((tries + 1))
        sleep 0.1
    done
    echo done >&7
    cat <&7 > /dev/null 2>&1
}
