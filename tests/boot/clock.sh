# A machine whose firmware stopped the interval timer (QEMU leaves it out): ACPI's timer sets the
# clocks.

used="the interval timer does not count: the clocks are set by ACPI's timer"
if grep -q "$used" /scheme/sys/log; then
    echo "STEP ruler: ok"
else
    echo "STEP ruler: FAIL no line '$used'"
fi

# kernel: clock: TSC <MHz> MHz, timer <kHz> kHz
set -- $(grep "kernel: clock:" /scheme/sys/log)
# The timer of QEMU's local APIC counts 62500 kHz. The clocks are measured so that it does not
# matter how busy the machine is: 2 % is much.
if [ "$7" -ge 61250 ] && [ "$7" -le 63750 ]; then
    echo "STEP clock: ok"
else
    echo "STEP clock: FAIL the local APIC's timer counts $7 kHz, expected 62500"
fi
