# What a user who is not root may do, and what programs may do with each other's handles.

failed=0
scif-rights || failed=1
scifctl
exit "$failed"
