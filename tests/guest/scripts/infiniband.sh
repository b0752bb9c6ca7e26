# The device of RDMA verbs by its commands and files.

failed=0
uverbs-test || failed=1
for table in devices contexts qps mrs stats limits; do
    cat "/scheme/infiniband/$table" || failed=1
done
exit "$failed"
