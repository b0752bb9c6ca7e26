# Runs what node 0 starts here.
until [ -e /tmp/bye ]; do
    sleep 0.1
done
sleep 0.5
