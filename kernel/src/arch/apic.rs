//! Local APIC (xAPIC or x2APIC), IO-APICs, and the legacy interrupt controllers put to sleep.

use core::arch::asm;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

use spin::Mutex;
use x86_64::registers::model_specific::Msr;

use super::{cpu, port, vector};
use crate::mm::{frame, phys};

const IA32_APIC_BASE: u32 = 0x1B;
const ENABLE: u64 = 1 << 11;
const ENABLE_X2: u64 = 1 << 10;
/// x2APIC registers are MSRs from here on, one per 16 bytes of the xAPIC page.
const X2_BASE: u32 = 0x800;

const REG_ID: u32 = 0x20;
const REG_TASK_PRIORITY: u32 = 0x80;
const REG_EOI: u32 = 0xB0;
const REG_SPURIOUS: u32 = 0xF0;
/// Interrupt command; in the xAPIC the destination is in a register of its own.
const REG_COMMAND: u32 = 0x300;
const REG_DESTINATION: u32 = 0x310;
const REG_LVT_TIMER: u32 = 0x320;
const REG_LVT_LINT0: u32 = 0x350;
const REG_LVT_LINT1: u32 = 0x360;
const REG_LVT_ERROR: u32 = 0x370;
const REG_TIMER_INITIAL: u32 = 0x380;
const REG_TIMER_CURRENT: u32 = 0x390;
const REG_TIMER_DIVIDE: u32 = 0x3E0;

const LVT_MASKED: u32 = 1 << 16;
const LVT_NMI: u32 = 4 << 8;
const APIC_ENABLE: u32 = 1 << 8;
const DIVIDE_BY_16: u32 = 3;

/// Bits of the interrupt command: kind of delivery, level (set except at the end of an INIT),
/// target.
const COMMAND_NMI: u32 = 4 << 8;
const COMMAND_INIT: u32 = 5 << 8;
const COMMAND_START: u32 = 6 << 8;
const COMMAND_PENDING: u32 = 1 << 12;
const COMMAND_ASSERT: u32 = 1 << 14;
/// Polls after which an interrupt command counts as lost.
const MAX_POLLS: u32 = 1_000_000;
/// Highest id to which the xAPIC can send; the next one means all processors.
const X1_LAST_ID: u32 = 0xFE;

static X2: AtomicBool = AtomicBool::new(false);
/// Physical address of the register page (xAPIC).
static PAGE: AtomicUsize = AtomicUsize::new(0);
/// Id of the boot processor, to which devices send interrupts.
static BOOT_ID: AtomicU32 = AtomicU32::new(0);

fn read(register: u32) -> u32 {
    if X2.load(Ordering::Relaxed) {
        // SAFETY: an APIC register that exists in x2APIC mode.
        unsafe { Msr::new(X2_BASE + register / 16).read() as u32 }
    } else {
        let page = PAGE.load(Ordering::Relaxed);
        // SAFETY: the register page is mapped uncached in the physical map.
        unsafe { phys::pointer::<u32>(page + register as usize).read_volatile() }
    }
}

fn write(register: u32, value: u32) {
    if X2.load(Ordering::Relaxed) {
        // SAFETY: as in `read`.
        unsafe { Msr::new(X2_BASE + register / 16).write(value.into()) };
    } else {
        let page = PAGE.load(Ordering::Relaxed);
        // SAFETY: as in `read`.
        unsafe { phys::pointer::<u32>(page + register as usize).write_volatile(value) };
    }
}

/// Turns the boot processor's local APIC on, with its timer stopped.
pub fn init_local() {
    // SAFETY: every 64-bit processor has this register.
    let base = unsafe { Msr::new(IA32_APIC_BASE).read() };
    PAGE.store((base & 0x000F_FFFF_FFFF_F000) as usize, Ordering::Relaxed);
    X2.store(cpu::features().x2apic, Ordering::Relaxed);
    enable(LVT_NMI);
    BOOT_ID.store(local_id(), Ordering::Relaxed);
    log::info!(
        "local APIC {} in {} mode",
        local_id(),
        if X2.load(Ordering::Relaxed) {
            "x2APIC"
        } else {
            "xAPIC"
        }
    );
}

/// Turns on another processor's local APIC, in the same mode. The boot processor handles the
/// machine's non-maskable interrupts.
pub fn init_other() {
    enable(LVT_MASKED);
    timer_interrupts();
}

fn enable(lint1: u32) {
    let mut base = Msr::new(IA32_APIC_BASE);
    // SAFETY: every 64-bit processor has this register; enabling keeps the address. The x2APIC is
    // turned on where the processor says it has one.
    unsafe {
        let value = base.read();
        base.write(value | ENABLE);
        if X2.load(Ordering::Relaxed) {
            base.write(value | ENABLE | ENABLE_X2);
        }
    }
    write(REG_TASK_PRIORITY, 0);
    write(REG_LVT_LINT0, LVT_MASKED);
    write(REG_LVT_LINT1, lint1);
    write(REG_LVT_ERROR, LVT_MASKED);
    write(REG_LVT_TIMER, LVT_MASKED);
    write(REG_TIMER_DIVIDE, DIVIDE_BY_16);
    write(
        REG_SPURIOUS,
        APIC_ENABLE | u32::from(vector::SPURIOUS + vector::FIRST_VECTOR),
    );
}

/// Stops the delivery of all interrupts, for a panic.
pub fn disable() {
    if X2.load(Ordering::Relaxed) || PAGE.load(Ordering::Relaxed) != 0 {
        write(REG_LVT_TIMER, LVT_MASKED);
    }
}

/// APIC id of this processor.
pub fn local_id() -> u32 {
    let id = read(REG_ID);
    if X2.load(Ordering::Relaxed) {
        id
    } else {
        id >> 24
    }
}

/// APIC id of the boot processor.
pub fn boot_id() -> u32 {
    BOOT_ID.load(Ordering::Relaxed)
}

/// Whether interrupts can be sent to the processor with this id.
pub fn is_reachable(id: u32) -> bool {
    X2.load(Ordering::Relaxed) || id <= X1_LAST_ID
}

/// Sends an interrupt to the processor with this id.
pub fn send(id: u32, vector: u8) {
    command(id, COMMAND_ASSERT | u32::from(vector));
}

/// Resets another processor: it then waits for [`send_start`].
pub fn send_init(id: u32) {
    command(id, COMMAND_ASSERT | COMMAND_INIT);
}

/// Starts a processor that was reset, in real mode, at the first byte of a page below 1 MiB.
pub fn send_start(id: u32, page: u8) {
    command(id, COMMAND_ASSERT | COMMAND_START | u32::from(page));
}

/// Sends a non-maskable interrupt to the processor with this id, at the machine's end.
pub fn send_nmi(id: u32) {
    // Nothing can be done about a lost one there, and a report may be under way already.
    let _ = is_sent(id, COMMAND_ASSERT | COMMAND_NMI);
}

fn command(id: u32, what: u32) {
    if !is_sent(id, what) {
        log::error!(
            "local APIC: register {REG_COMMAND:#x} still holds the command {what:#x} to the \
             processor with APIC id {id}, which is taken for lost"
        );
    }
}

/// Writes an interrupt command to the local APIC. False when it does not go out.
fn is_sent(id: u32, what: u32) -> bool {
    if X2.load(Ordering::Relaxed) {
        let value = u64::from(id) << 32 | u64::from(what);
        // SAFETY: the x2APIC has its interrupt command in one register, and the commands sent here
        // leave memory alone. Writes to its registers are not ordered with stores, but what was
        // stored before must be visible to the processor that is interrupted.
        unsafe {
            asm!("mfence", "lfence", options(nostack, preserves_flags));
            Msr::new(X2_BASE + REG_COMMAND / 16).write(value);
        }
        return true;
    }
    write(REG_DESTINATION, id << 24);
    write(REG_COMMAND, what);
    // The next command must not replace this one before it is sent.
    for _ in 0..MAX_POLLS {
        if read(REG_COMMAND) & COMMAND_PENDING == 0 {
            return true;
        }
        core::hint::spin_loop();
    }
    false
}

/// Tells the local APIC that the interrupt in service is done.
pub fn end_of_interrupt() {
    write(REG_EOI, 0);
}

/// Prepares this processor's timer for [`timer_once`]: stopped, with an interrupt at its end.
pub fn timer_interrupts() {
    write(REG_TIMER_INITIAL, 0);
    write(
        REG_LVT_TIMER,
        u32::from(vector::TIMER + vector::FIRST_VECTOR),
    );
}

/// Has the timer interrupt once after `ticks` (0 stops it). It is a single store, because in a
/// virtual machine each one costs an exit from the guest.
pub fn timer_once(ticks: u32) {
    write(REG_TIMER_INITIAL, ticks);
}

/// Has the timer count down from the top without interrupting (calibration).
pub fn timer_count_silently() {
    write(REG_LVT_TIMER, LVT_MASKED);
    write(REG_TIMER_INITIAL, u32::MAX);
}

/// The ticks that the timer has counted down from the top.
pub fn timer_counted() -> u32 {
    u32::MAX - read(REG_TIMER_CURRENT)
}

/// Masks both legacy interrupt controllers for good. It first moves them away from the exception
/// vectors, so that a spurious interrupt of theirs cannot look like an exception.
pub fn silence_legacy_controllers() {
    const PIC1: u16 = 0x20;
    const PIC2: u16 = 0xA0;
    for (base, vector, wiring) in [(PIC1, 0xF0, 4), (PIC2, 0xF8, 2)] {
        port::write8(base, 0x11);
        port::write8(base + 1, vector);
        port::write8(base + 1, wiring);
        port::write8(base + 1, 1);
        port::write8(base + 1, 0xFF);
    }
}

/// An IO-APIC: its register page and its interrupt inputs.
#[derive(Clone, Copy, Debug)]
struct IoApic {
    page: usize,
    first: u32,
    inputs: u32,
}

impl IoApic {
    fn read(&self, register: u32) -> u32 {
        // SAFETY: the register page is mapped uncached in the physical map; select, then access,
        // which no other processor does at the same time, as this one has the kernel's lock.
        unsafe {
            phys::pointer::<u32>(self.page).write_volatile(register);
            phys::pointer::<u32>(self.page + 0x10).read_volatile()
        }
    }

    fn write(&self, register: u32, value: u32) {
        // SAFETY: as in `read`.
        unsafe {
            phys::pointer::<u32>(self.page).write_volatile(register);
            phys::pointer::<u32>(self.page + 0x10).write_volatile(value);
        }
    }
}

/// How a legacy line is wired.
#[derive(Clone, Copy, Debug)]
struct Line {
    /// Global interrupt number.
    input: u32,
    active_low: bool,
    level: bool,
}

/// Bytes of an IO-APIC's registers that are used.
const IO_APIC_BYTES: usize = 0x20;
const REDIRECTION: u32 = 0x10;
const REDIRECT_MASKED: u32 = 1 << 16;
const REDIRECT_LEVEL: u32 = 1 << 15;
const REDIRECT_LOW: u32 = 1 << 13;
/// Most inputs of an IO-APIC, by the width of their count.
const MAX_INPUTS: u32 = 256;
/// More IO-APICs than have legacy lines on any machine that this runs on.
const MAX_IO_APICS: usize = 16;

struct Wiring {
    controllers: [Option<IoApic>; MAX_IO_APICS],
    lines: [Line; 16],
}

static WIRING: Mutex<Wiring> = Mutex::new(Wiring {
    controllers: [None; MAX_IO_APICS],
    lines: [Line {
        input: 0,
        active_low: false,
        level: false,
    }; 16],
});

/// Resets the wiring to the ISA default: line n is input n, edge, active high.
pub fn default_wiring() {
    let mut wiring = WIRING.lock();
    for (i, line) in wiring.lines.iter_mut().enumerate() {
        *line = Line {
            input: i as u32,
            active_low: false,
            level: false,
        };
    }
}

/// Adds an IO-APIC, all its inputs masked. The address is the firmware's, and may be wrong.
pub fn add_io_apic(address: usize, first: u32) {
    // The numbers of its inputs, of which there may be `MAX_INPUTS`, must not wrap.
    let usable = phys::is_mapped(address, IO_APIC_BYTES) && address.is_multiple_of(0x10);
    if !usable || first.checked_add(MAX_INPUTS).is_none() {
        log::error!("IO-APIC at {address:#x}, first input {first}, is out of reach and not used");
        return;
    }
    if frame::any_ram(address, IO_APIC_BYTES) {
        log::error!("IO-APIC at {address:#x} is in memory and not used");
        return;
    }
    let mut controller = IoApic {
        page: address,
        first,
        inputs: 0,
    };
    controller.inputs = (controller.read(1) >> 16 & 0xFF) + 1;
    for input in 0..controller.inputs {
        controller.write(REDIRECTION + 2 * input, REDIRECT_MASKED);
    }
    log::info!(
        "IO-APIC at {address:#x}: inputs {first}..{}",
        first.saturating_add(controller.inputs)
    );
    let mut wiring = WIRING.lock();
    match wiring.controllers.iter_mut().find(|c| c.is_none()) {
        Some(slot) => *slot = Some(controller),
        None => log::error!("more than {MAX_IO_APICS} IO-APICs: the one at {address:#x} is unused"),
    }
}

/// Records how a legacy line is wired (MADT source override).
pub fn override_line(line: u8, input: u32, active_low: bool, level: bool) {
    if let Some(slot) = WIRING.lock().lines.get_mut(usize::from(line)) {
        *slot = Line {
            input,
            active_low,
            level,
        };
    }
}

/// Masks or unmasks a legacy line (0..16), which is delivered to the boot processor.
pub fn set_masked(line: u8, masked: bool) {
    let wiring = WIRING.lock();
    let Some(Line {
        input,
        active_low,
        level,
    }) = wiring.lines.get(usize::from(line)).copied()
    else {
        return;
    };
    let holder = wiring
        .controllers
        .iter()
        .flatten()
        .find(|c| input >= c.first && input - c.first < c.inputs);
    let Some(controller) = holder else { return };
    let register = REDIRECTION + 2 * (input - controller.first);
    let mut low = u32::from(line + vector::FIRST_VECTOR);
    if masked {
        low |= REDIRECT_MASKED;
    }
    if level {
        low |= REDIRECT_LEVEL;
    }
    if active_low {
        low |= REDIRECT_LOW;
    }
    controller.write(register + 1, boot_id() << 24);
    controller.write(register, low);
}
