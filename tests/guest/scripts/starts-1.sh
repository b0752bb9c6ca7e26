# The other node of starts-0.sh: micd is started by hand, with nothing in its environment.

micd &
tries=0
until [ -e /scheme/scif/version ] || [ "$tries" -gt 300 ]; do
    tries=$((tries + 1))
    sleep 0.1
done
echo "started by hand" > /scheme/scif/accept/2050
