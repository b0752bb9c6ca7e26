//! Several processors: the lock that lets one of them into the kernel at a time, and the requests
//! that they make to each other.
//!
//! A processor that comes from user mode or is interrupted in the idle loop takes the lock first
//! ([`enter`]) and gives it back last ([`leave`]); the lock belongs to the processor and stays with
//! it while it switches contexts. So no code of the kernel runs beside other code of the kernel,
//! and what was written for one processor holds for several, but for what programs do meanwhile in
//! user mode on the others: their registers, their page tables and their floating point state are
//! in use there. [`displace`] makes a processor come in and give those up; it then waits for the
//! lock, so they stay as they are until the asker leaves.

use core::hint::spin_loop;
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use super::exception::handlers;
use super::{apic, cpu, irq, machine};
use crate::mm::{paging, tlb};

/// The boot processor has it from its first instruction on.
static LOCKED: AtomicBool = AtomicBool::new(true);
/// More processors than the boot processor run, or are about to.
static SEVERAL: AtomicBool = AtomicBool::new(false);
/// Bit n: processor n runs.
static ONLINE: AtomicU64 = AtomicU64::new(1);
/// The processor that stops all others: APIC id + 1, or 0. By that id, because in an interrupt that
/// cannot be masked `gs` may still be the program's.
static STOPPING: AtomicU64 = AtomicU64::new(0);
/// Polls after which a processor that does not come in is taken for dead. It is no time, because
/// time also passes while an emulator stands still with the whole machine.
const MAX_POLLS: u32 = 1 << 28;

/// A processor as the others see it, and their requests to it.
struct Slot {
    /// Where interrupts for it go.
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

/// The request to load the kernel's own page tables and to save the floating point state; the
/// processor that asked waits for it.
const DISPLACE: u8 = 1;
/// The request to drop all translations of the kernel's addresses before anything else is done with
/// the lock.
const FLUSH_KERNEL: u8 = 2;

fn here() -> &'static Slot {
    &SLOTS[cpu::index()]
}

/// Whether more than one processor runs. What saves work on a single one asks this.
pub fn several() -> bool {
    SEVERAL.load(Ordering::Relaxed)
}

/// From now on [`several`] is true. Before any program runs.
pub(super) fn expect_several() {
    SEVERAL.store(true, Ordering::Relaxed);
}

/// Marks this processor as one that runs and answers requests.
pub(super) fn come_online() {
    here().apic_id.store(apic::local_id(), Ordering::Relaxed);
    ONLINE.fetch_or(1 << cpu::index(), Ordering::Release);
}

/// The processors that run, by bits.
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

/// Takes the lock: the first thing on every way into the kernel, with interrupts off.
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
    // Requests that came between the last check and the lock: only those that no processor waits
    // for.
    displaced |= answer();
    if displaced {
        (handlers().resume)();
        machine::load_float();
    }
}

/// Gives the lock back: the last thing on every way out of the kernel, and before halting.
pub fn leave() {
    LOCKED.store(false, Ordering::Release);
}

/// Serves the requests of other processors; true when this one has given up its context's page
/// tables and floating point state.
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
    // Taken first: nobody waits for it, so a page may be unmapped, and this asked for, while it is
    // being done.
    if slot.requests.fetch_and(!FLUSH_KERNEL, Ordering::AcqRel) & FLUSH_KERNEL != 0 {
        paging::flush_kernel();
    }
    if displaced {
        // Last: the asker waits for the end of it.
        slot.requests.fetch_and(!DISPLACE, Ordering::Release);
    }
    displaced
}

/// Sleeps until an interrupt was handled. Others have the lock meanwhile.
pub fn idle() {
    leave();
    cpu::wait_for_interrupt();
    enter();
}

/// As [`idle`], but does something with interrupts on instead of sleeping. It must not use what the
/// lock protects.
pub fn idle_with(action: impl FnOnce()) {
    leave();
    cpu::with_interrupts(action);
    enter();
}

/// Makes another processor come into the kernel, or out of its idle loop, without waiting for it.
pub fn call(processor: usize) {
    let apic_id = SLOTS[processor].apic_id.load(Ordering::Relaxed);
    apic::send(apic_id, irq::CALL + irq::FIRST_VECTOR);
}

/// Makes another processor come into the kernel and give up its context's page tables and
/// floating point state; returns when it has. It does not go on before the caller leaves the
/// kernel, so the context's registers are where the entry code has put them.
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
        irq::CALL
    );
}

/// Tells page tables how to reach other processors.
pub(super) fn init() {
    tlb::init(tlb::Processors {
        set_root,
        exclude_others,
        flush_kernel_elsewhere,
    });
}

/// Notes which page tables this processor has loaded.
fn set_root(root: usize) {
    here().root.store(root, Ordering::Relaxed);
}

/// See [`tlb::Processors`].
fn exclude_others(root: usize) {
    if !several() {
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
    if !several() {
        return;
    }
    for processor in numbers(online() & !(1 << cpu::index())) {
        SLOTS[processor]
            .requests
            .fetch_or(FLUSH_KERNEL, Ordering::Release);
    }
}

/// Stops all other processors where they are, before a panic's report or the machine's end. Of
/// several that want it at once one returns; it does so again when it fails on its way.
pub fn stop_others() {
    if !several() {
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

/// Whether a non-maskable interrupt means that this processor has to stop.
pub fn is_stopping() -> bool {
    match STOPPING.load(Ordering::Acquire) {
        0 => false,
        mark => mark != u64::from(apic::local_id()) + 1,
    }
}
