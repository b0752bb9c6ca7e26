# Windows between two cards; the host only waits until they are done.

# Node 2 waits until it was heard.
read -r word < /scheme/scif/accept/2999
[ "$word" = done ]
