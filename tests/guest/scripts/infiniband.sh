# The device of RDMA verbs by its commands and files.

. /scheme/initfs/lib/steps.sh

pid_of() { ps | grep " $1\$" | { read -r pid rest; echo "$pid"; }; }
another() { [ -n "$(pid_of "$1")" ] && [ "$(pid_of "$1")" != "$2" ]; }
served() { cat /scheme/infiniband/stats > /dev/null 2>&1; }

uverbs-test || failed=1
uverbs-data || failed=1
# The daemon is killed: who had a context has none, and another daemon serves.
exec 7<> /scheme/infiniband/uverbs0
ibd=$(pid_of ibd)
kill -9 "$ibd"
until_true another ibd "$ibd"
step ibd-came-back $? "$(ps)"
! cat <&7 > /dev/null 2>&1
step old-context $? "a context of the lost daemon can be read"
exec 7<&-
until_true served
step served-again $? "there are no files"
uverbs-test || failed=1
uverbs-data || failed=1
for table in devinfo devices contexts qps mrs stats limits; do
    cat "/scheme/infiniband/$table" || failed=1
done
exit "$failed"
