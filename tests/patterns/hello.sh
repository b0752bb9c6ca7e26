# The smallest programs of each kind, their sizes and starts (docs/programs.md).

. /scheme/initfs/lib/steps.sh

for program in hello-c hello-plusplus hello-std hello-runtime; do
    said=$($program)
    [ "$said" = hello ]
    step "$program" $? "it said '$said'"
done
cd /scheme/initfs/bin
starts 21 ./hello-c ./hello-plusplus ./hello-std ./hello-runtime
step starts $? "status"
exit "$failed"
