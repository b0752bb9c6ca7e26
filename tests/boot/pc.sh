# A node with screen and keyboard: what is typed arrives, what is printed is seen, and the self-check
# passes. The launcher presses the keys and looks at the screen.

# What is typed while the driver sets the keyboard up is lost.
tries=0
until dmesg | grep -q "ps2d: keyboard ready"; do
    tries=$((tries + 1))
    if [ "$tries" -gt 300 ]; then
        echo "STEP keyboard: FAIL no line 'ps2d: keyboard ready'"
        dmesg | grep ps2d
        exit 1
    fi
    sleep 0.1
done

echo "LAUNCHER type 0 Keys: a_Z 09, ok?"
read line
if [ "$line" = "Keys: a_Z 09, ok?" ]; then
    echo "STEP keyboard: ok"
else
    echo "STEP keyboard: FAIL the keys gave '$line'"
fi

echo "LAUNCHER screen 0 STEP keyboard: ok"
# The next line is typed when the screen was looked at.
echo "LAUNCHER type 0 go on"
read line

sh /scheme/initfs/lib/self-check.sh
status=$?
echo "LAUNCHER screen 0 self-check: 9 passed, 0 failed"
echo "LAUNCHER type 0 go on"
read line
exit "$status"
