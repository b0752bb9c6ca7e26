# Level 2 of Scheduled Transfers between two nodes, whose drivers are killed: the client. The server:
# sessions-1.sh.

st-session 1
exit "$?"
