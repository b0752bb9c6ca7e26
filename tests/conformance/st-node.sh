# The rows of Scheduled Transfers in one node. An agent that is killed is followed by another one.

until st-agent 3910; do :; done &
until st-agent 3911; do :; done &
st-conformance node 0 0
