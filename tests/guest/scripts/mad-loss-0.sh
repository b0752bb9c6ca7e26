# A subscriber of notices sees node 1 (mad-loss-1.sh) lose its driver, come back, and go.

. /scheme/initfs/lib/steps.sh

has_port() { [ "$(cat /scheme/infiniband/fabric | wc -l)" -gt 1 ]; }

until_true has_port
step port $? "the daemon does not know its node"
mad-test loss 1 || failed=1
exit "$failed"
