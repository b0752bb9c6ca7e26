# The part of a second card (node 2) in a demo with three or more nodes: it lends its memory to the
# first card (card.sh).

failed=0
example-rma serve 16 card-to-card || failed=1
exit "$failed"
