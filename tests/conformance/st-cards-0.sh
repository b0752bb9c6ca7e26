# The rows of Scheduled Transfers from card to card: the host asks both.
# They ask for losses, also by lines as LAUNCHER cut 1 2.

st-conformance cards 1 2
