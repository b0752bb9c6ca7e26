//! Several processors: the lock that lets one of them into the kernel at a time, and the requests
//! that they send to each other.
//!
//! A processor that comes from user mode or is interrupted in the idle loop takes the lock first
//! ([`enter`]) and gives it back last ([`leave`]). The lock belongs to the processor and stays
//! with it while it switches contexts. So no code of the kernel runs beside other code of the
//! kernel, and code written for one processor is correct for several, except for what programs do
//! meanwhile in user mode on the others: their registers, page tables and floating point state are
//! in use there. [`displace`] makes a processor come into the kernel and give those up. It then
//! waits for the lock, so they stay as they are until the caller leaves.

use core::hint::spin_loop;
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use super::handlers::handlers;
use super::{apic, cpu, machine, vector};
use crate::mm::{paging, tlb};

/// The boot processor has the lock from its first instruction on.
static LOCKED: AtomicBool = AtomicBool::new(true);
/// Bit n: processor n runs.
static ONLINE: AtomicU64 = AtomicU64::new(1);
/// The processor that stops all others: APIC id + 1, or 0. The id is used because in a
/// non-maskable interrupt `gs` may still be the program's.
static STOPPING: AtomicU64 = AtomicU64::new(0);
/// Number of processors that have stopped for that one.
static STOPPED: AtomicU32 = AtomicU32::new(0);
/// Polls for which a panic waits for the others to stop: on hardware less than a second.
const MAX_STOP_POLLS: u32 = 1 << 24;
/// Polls after which a processor that does not come in counts as dead. It is not a time, because
/// time also passes while an emulator stops the whole machine.
const MAX_POLLS: u32 = 1 << 28;

/// A processor for the others, and their requests to it.
struct Slot {
    /// The target of interrupts for it.
    apic_id: AtomicU32,
    /// Physical address of the page tables it has loaded.
    root: AtomicUsize,
    requests: AtomicU8,
}

static SLOTS: [Slot; cpu::MAX] = [const {
    Slot {
        apic_id: AtomicU32::new(0),
        root: AtomicUsize::new(0),
        requests: AtomicU8::new(0),
    }
}; cpu::MAX];

/// The request to load the kernel's own page tables and to save the floating point state. The
/// requesting processor waits for it.
const DISPLACE: u8 = 1;
/// The request to drop all translations of the kernel's addresses before doing anything else with
/// the lock.
const FLUSH_KERNEL: u8 = 2;

fn here() -> &'static Slot {
    &SLOTS[cpu::index()]
}

/// Marks this processor as running and answering requests.
pub(super) fn come_online() {
    here().apic_id.store(apic::local_id(), Ordering::Relaxed);
    ONLINE.fetch_or(1 << cpu::index(), Ordering::Release);
}

/// The running processors, as bits.
pub fn online() -> u64 {
    ONLINE.load(Ordering::Acquire)
}

/// The numbers in a set of processors.
pub fn numbers(mut set: u64) -> impl Iterator<Item = usize> {
    core::iter::from_fn(move || {
        let number = set.trailing_zeros() as usize;
        // Without the lowest bit; an empty set has none.
        set &= set.checked_sub(1)?;
        Some(number)
    })
}

/// Takes the lock: the first step of every way into the kernel, with interrupts off.
pub fn enter() {
    let mut displaced = false;
    while LOCKED
        .compare_exchange_weak(false, true, Ordering::Acquire, Ordering::Relaxed)
        .is_err()
    {
        while LOCKED.load(Ordering::Relaxed) {
            displaced |= answer();
            spin_loop();
        }
    }
    // Requests that came between the last check and the lock: only those for which no processor
    // waits.
    displaced |= answer();
    if displaced {
        (handlers().resume)();
        machine::load_float();
    }
}

/// Gives the lock back: the last step of every way out of the kernel, and before halting.
pub fn leave() {
    LOCKED.store(false, Ordering::Release);
}

/// Serves the requests of other processors. True when this processor has given up its context's
/// page tables and floating point state.
fn answer() -> bool {
    let slot = here();
    let requests = slot.requests.load(Ordering::Acquire);
    if requests == 0 {
        return false;
    }
    let displaced = requests & DISPLACE != 0;
    if displaced {
        paging::activate(None);
        machine::save_float();
    }
    // Clear this request first: no processor waits for it, so another page may be unmapped, and
    // another flush requested, during this one.
    if slot.requests.fetch_and(!FLUSH_KERNEL, Ordering::AcqRel) & FLUSH_KERNEL != 0 {
        paging::flush_kernel();
    }
    if displaced {
        // Clear this request last: the other processor waits for that.
        slot.requests.fetch_and(!DISPLACE, Ordering::Release);
    }
    displaced
}

/// Sleeps until an interrupt has been handled. Other processors can have the lock meanwhile.
pub fn idle() {
    leave();
    cpu::wait_for_interrupt();
    enter();
}

/// [`idle`], but runs `action` with interrupts on instead of sleeping. It must not use what the
/// lock protects.
pub fn idle_with(action: impl FnOnce()) {
    leave();
    cpu::with_interrupts(action);
    enter();
}

/// Makes another processor come into the kernel, or out of its idle loop, without waiting for
/// that.
pub fn call(processor: usize) {
    let apic_id = SLOTS[processor].apic_id.load(Ordering::Relaxed);
    apic::send(apic_id, vector::CALL + vector::FIRST_VECTOR);
}

/// Makes another processor come into the kernel and give up its context's page tables and floating
/// point state; returns when it has. The other processor does not continue before the caller
/// leaves the kernel, so the context's registers are where the entry code has put them.
///
/// Panics when the processor does not answer: nothing of its context would be certain.
pub fn displace(processor: usize) {
    debug_assert_ne!(processor, cpu::index());
    let Slot {
        requests, apic_id, ..
    } = &SLOTS[processor];
    requests.fetch_or(DISPLACE, Ordering::Release);
    call(processor);
    for _ in 0..MAX_POLLS {
        if requests.load(Ordering::Acquire) & DISPLACE == 0 {
            return;
        }
        spin_loop();
    }
    panic!(
        "processor {processor} (APIC id {}) was called into the kernel by interrupt {} and did not \
         come",
        apic_id.load(Ordering::Relaxed),
        vector::CALL
    );
}

/// Sets how page tables reach other processors.
pub(super) fn init() {
    tlb::init(tlb::Processors {
        set_root,
        exclude_others,
        flush_kernel_elsewhere,
    });
}

/// Records which page tables this processor has loaded.
fn set_root(root: usize) {
    here().root.store(root, Ordering::Relaxed);
}

/// See [`tlb::Processors`].
fn exclude_others(root: usize) {
    if !cpu::several() {
        return;
    }
    for processor in numbers(online() & !(1 << cpu::index())) {
        if SLOTS[processor].root.load(Ordering::Relaxed) == root {
            displace(processor);
        }
    }
}

/// See [`tlb::Processors`].
fn flush_kernel_elsewhere() {
    if !cpu::several() {
        return;
    }
    for processor in numbers(online() & !(1 << cpu::index())) {
        SLOTS[processor]
            .requests
            .fetch_or(FLUSH_KERNEL, Ordering::Release);
    }
}

/// Stops all other processors where they are, before a panic's report or the machine's end. If
/// several call it at once, it returns on one of them, and again if that one fails on its way.
pub fn stop_others() {
    if !cpu::several() {
        return;
    }
    let this = apic::local_id();
    let mark = u64::from(this) + 1;
    match STOPPING.compare_exchange(0, mark, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => numbers(online())
            .map(|processor| SLOTS[processor].apic_id.load(Ordering::Relaxed))
            .filter(|&id| id != this)
            .for_each(apic::send_nmi),
        Err(who) if who == mark => {}
        Err(_) => cpu::halt(),
    }
}

/// Stops this processor, as another one has asked for.
pub fn stop_here() -> ! {
    STOPPED.fetch_add(1, Ordering::Release);
    cpu::halt()
}

/// Waits for a moment until all other processors have stopped. Returns how many have, and how many
/// others there are; nothing if there are none.
pub fn wait_for_stopped() -> Option<(u32, u32)> {
    if !cpu::several() {
        return None;
    }
    let others = online().count_ones().saturating_sub(1);
    let stopped = || STOPPED.load(Ordering::Acquire);
    for _ in 0..MAX_STOP_POLLS {
        if stopped() >= others {
            break;
        }
        spin_loop();
    }
    Some((stopped(), others))
}

/// Whether a non-maskable interrupt means that this processor must stop.
pub fn is_stopping() -> bool {
    match STOPPING.load(Ordering::Acquire) {
        0 => false,
        mark => mark != u64::from(apic::local_id()) + 1,
    }
}
