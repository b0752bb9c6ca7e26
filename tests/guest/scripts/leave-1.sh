# The node that leaves: its script ends, so it is switched off, while a server is at work.

scif-perf -s --port 1300 &
read -r word < /scheme/scif/accept/2999
[ "$word" = done ]
