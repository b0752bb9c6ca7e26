# The server of sessions-0.sh.

st-session serve
exit "$?"
