# The rows of Scheduled Transfers between host and card: A is here.
# They ask for losses, also by lines as LAUNCHER cut 0 1.

until st-agent 3910; do :; done &
st-conformance pair 0 1
