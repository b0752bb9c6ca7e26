# The least a booted node must do: run programs, redirect, pipe, and power off with status 0.

echo "hello" > /tmp/hello
[ "$(cat /tmp/hello)" = hello ] || exit 1
[ "$(cat /tmp/hello | wc -c)" -eq 6 ] || exit 2
set -- $(sha256sum /tmp/hello)
[ "$1" = 5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03 ] || exit 3
ls /scheme/initfs/bin > /dev/null || exit 4
ps || exit 5
