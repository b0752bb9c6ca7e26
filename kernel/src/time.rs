//! Clocks and timers. The monotonic clock is the time stamp counter; timers are one-shot
//! interrupts of the local APIC. Both are calibrated at boot against a timer of known speed
//! (`pit`; `kernel_core::calibration` says how).

pub mod spec;

use alloc::boxed::Box;
use core::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering};

use kernel_core::calibration::{self, Rates, Reading};
pub use kernel_core::timers::TimerId;
use kernel_core::timers::TimerQueue;
use spin::{Mutex, Once};

use crate::arch::{apic, cpu, irq, pit, rtc, smp, vector};

type Action = Box<dyn FnOnce() + Send>;

static TIMERS: Mutex<TimerQueue<Action>> = Mutex::new(TimerQueue::new());

/// Counter value at boot.
static TSC_START: AtomicU64 = AtomicU64::new(0);
/// Nanoseconds per counter tick, times 2^32.
static TSC_SCALE: AtomicU64 = AtomicU64::new(0);
/// Timer ticks per millisecond.
static TIMER_RATE: AtomicU32 = AtomicU32::new(0);
/// The time at which a processor's armed timer interrupt is due (`u64::MAX`: not armed).
static ARMED: [AtomicU64; cpu::MAX] = [const { AtomicU64::new(u64::MAX) }; cpu::MAX];
/// Nanoseconds since 1970 at boot.
static BOOT_TIME: AtomicU64 = AtomicU64::new(0);
/// Correction set by the administrator, in nanoseconds.
static OFFSET: AtomicI64 = AtomicI64::new(0);

const NS_PER_MS: u64 = 1_000_000;
const NS_PER_SECOND: u64 = 1_000_000_000;
/// Rates assumed on a machine without a timer of known speed.
const UNKNOWN: Rates = Rates {
    tsc: NS_PER_SECOND,
    timer: NS_PER_SECOND / 16,
    is_sure: false,
};
/// Longest interval for which the timer is armed. It is armed again for longer ones.
const MAX_INTERVAL_NS: u64 = 100 * NS_PER_MS;

/// The function that a timer interrupt calls with the time, after the timers that are due.
static TICK: Once<fn(u64)> = Once::new();

/// Calibrates the clocks and reads the time of day. Every timer interrupt calls `tick` with the
/// time. The local APIC must be on.
pub fn init(tick: fn(u64)) {
    TICK.call_once(|| tick);
    match pit::wait_ms(1) {
        Some(pit::Ruler::Interval) => {}
        Some(pit::Ruler::Acpi(port)) => log::info!(
            "the interval timer does not count: the clocks are set by ACPI's timer at {port:#x}"
        ),
        None => {
            log::error!("neither the interval timer nor ACPI's timer counts: clocks will be wrong")
        }
    }
    let rates = calibrate();
    TSC_SCALE.store(
        ((u128::from(NS_PER_SECOND) << 32) / u128::from(rates.tsc)) as u64,
        Ordering::Relaxed,
    );
    TIMER_RATE.store(
        u32::try_from(rates.timer / 1000).unwrap_or(u32::MAX).max(1),
        Ordering::Relaxed,
    );
    TSC_START.store(cpu::time_stamp(), Ordering::Relaxed);
    BOOT_TIME.store(
        rtc::seconds().saturating_mul(NS_PER_SECOND),
        Ordering::Relaxed,
    );
    irq::register(vector::TIMER, |_| interrupt());
    apic::timer_interrupts();
    log::info!(
        "clock: TSC {} MHz, timer {} kHz",
        rates.tsc / 1_000_000,
        TIMER_RATE.load(Ordering::Relaxed)
    );
}

/// Measures how fast the time stamp counter and the local timer count.
fn calibrate() -> Rates {
    apic::timer_count_silently();
    let measured = pit::Ruler::find().and_then(|ruler| {
        calibration::measure(ruler.speed(), || Reading {
            before: cpu::time_stamp(),
            ruler: ruler.read(),
            timer: apic::timer_counted(),
            after: cpu::time_stamp(),
        })
    });
    match measured {
        Some(rates) if !rates.is_sure => {
            log::warn!("the clocks may be wrong: no two measurements of them agreed");
            rates
        }
        Some(rates) => rates,
        None => UNKNOWN,
    }
}

/// Nanoseconds since boot.
pub fn now_ns() -> u64 {
    let ticks = cpu::time_stamp().saturating_sub(TSC_START.load(Ordering::Relaxed));
    let scale = TSC_SCALE.load(Ordering::Relaxed);
    ((u128::from(ticks) * u128::from(scale)) >> 32) as u64
}

/// Nanoseconds since 1970 (read from the CMOS clock at boot, plus `now_ns`, plus `set_offset`).
pub fn realtime_ns() -> u128 {
    let base = i128::from(BOOT_TIME.load(Ordering::Relaxed)) + i128::from(now_ns());
    let offset = i128::from(OFFSET.load(Ordering::Relaxed));
    u128::try_from(base + offset).unwrap_or(0)
}

/// Sets the offset that is added to the CMOS time (`sys/update_time_offset`), in nanoseconds. It
/// has fewer bits than the sum, so that the sum cannot overflow.
pub fn set_offset(ns: i64) {
    OFFSET.store(ns, Ordering::Relaxed);
}

/// Calls `action` once when the monotonic clock reaches `deadline_ns`, or soon when that is past.
/// The action runs in the timer interrupt and must not block. It may take any lock, because
/// interrupts are taken only in user mode and in the idle loop, and the kernel runs on one
/// processor at a time.
pub fn at(deadline_ns: u64, action: Box<dyn FnOnce() + Send>) -> TimerId {
    let id = TIMERS.lock().add(deadline_ns, action);
    arm_for_timers(deadline_ns);
    id
}

/// Cancels a timer. False when it has run already.
pub fn cancel(timer: TimerId) -> bool {
    TIMERS.lock().cancel(timer).is_some()
}

/// Makes sure that this processor's timer interrupts at `deadline_ns` or earlier.
pub(crate) fn arm_by(deadline_ns: u64) {
    if deadline_ns < ARMED[cpu::index()].load(Ordering::Relaxed) {
        arm(deadline_ns);
    }
}

/// Makes sure that some processor's timer interrupts at `deadline_ns` or earlier. An interrupted
/// processor arms its timer for the next deadline.
fn arm_for_timers(deadline_ns: u64) {
    let is_armed = |processor: usize| ARMED[processor].load(Ordering::Relaxed) <= deadline_ns;
    if !smp::numbers(smp::online()).any(is_armed) {
        arm(deadline_ns);
    }
}

fn arm(deadline_ns: u64) {
    let interval = deadline_ns.saturating_sub(now_ns()).min(MAX_INTERVAL_NS);
    let rate = u64::from(TIMER_RATE.load(Ordering::Relaxed));
    let ticks = (interval * rate)
        .div_ceil(NS_PER_MS)
        .clamp(1, u64::from(u32::MAX));
    ARMED[cpu::index()].store(deadline_ns, Ordering::Relaxed);
    apic::timer_once(ticks as u32);
}

/// Handles a timer interrupt. The first processor that gets one runs all due timers.
fn interrupt() {
    ARMED[cpu::index()].store(u64::MAX, Ordering::Relaxed);
    let now = now_ns();
    loop {
        // The lock is not held while an action runs: it may add timers.
        let Some(action) = TIMERS.lock().pop_expired(now) else {
            break;
        };
        action();
    }
    if let Some(tick) = TICK.get() {
        tick(now);
    }
    let next = TIMERS.lock().next_deadline();
    if let Some(next) = next {
        arm_for_timers(next);
    }
}
