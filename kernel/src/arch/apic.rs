//! Local APIC (xAPIC or x2APIC), IO-APICs, and the legacy interrupt controllers put to sleep.

use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use spin::Mutex;
use x86_64::registers::model_specific::Msr;

use super::{cpu, irq, port};
use crate::mm::phys;

const IA32_APIC_BASE: u32 = 0x1B;
const ENABLE: u64 = 1 << 11;
const ENABLE_X2: u64 = 1 << 10;
/// x2APIC registers are MSRs from here, one per 16 bytes of the xAPIC page.
const X2_BASE: u32 = 0x800;

const REG_ID: u32 = 0x20;
const REG_TASK_PRIORITY: u32 = 0x80;
const REG_EOI: u32 = 0xB0;
const REG_SPURIOUS: u32 = 0xF0;
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

static X2: AtomicBool = AtomicBool::new(false);
/// Physical address of the register page (xAPIC).
static PAGE: AtomicUsize = AtomicUsize::new(0);

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

/// Turns the local APIC on, with its timer stopped.
pub fn init_local() {
    let mut base = Msr::new(IA32_APIC_BASE);
    // SAFETY: every 64-bit processor has this register; enabling keeps the address.
    unsafe {
        let value = base.read();
        PAGE.store((value & 0x000F_FFFF_FFFF_F000) as usize, Ordering::Relaxed);
        if cpu::features().x2apic {
            base.write(value | ENABLE);
            base.write(value | ENABLE | ENABLE_X2);
            X2.store(true, Ordering::Relaxed);
        } else {
            base.write(value | ENABLE);
        }
    }
    write(REG_TASK_PRIORITY, 0);
    write(REG_LVT_LINT0, LVT_MASKED);
    write(REG_LVT_LINT1, LVT_NMI);
    write(REG_LVT_ERROR, LVT_MASKED);
    write(REG_LVT_TIMER, LVT_MASKED);
    write(REG_TIMER_DIVIDE, DIVIDE_BY_16);
    write(
        REG_SPURIOUS,
        APIC_ENABLE | u32::from(irq::SPURIOUS + irq::FIRST_VECTOR),
    );
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

/// Stops delivery of everything; for a panic.
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

/// Tells the local APIC that the interrupt in service is done.
pub fn end_of_interrupt() {
    write(REG_EOI, 0);
}

/// Lets the timer interrupt once after `ticks` (0 stops it).
pub fn timer_once(ticks: u32) {
    write(REG_LVT_TIMER, u32::from(irq::TIMER + irq::FIRST_VECTOR));
    write(REG_TIMER_INITIAL, ticks);
}

/// Lets the timer count down from the top without interrupting (calibration).
pub fn timer_count_silently() {
    write(REG_LVT_TIMER, LVT_MASKED);
    write(REG_TIMER_INITIAL, u32::MAX);
}

/// What the timer has counted down from the top.
pub fn timer_counted() -> u32 {
    u32::MAX - read(REG_TIMER_CURRENT)
}

/// Masks both legacy interrupt controllers for good, moved away from the exception vectors first
/// so that a spurious interrupt of theirs cannot look like an exception.
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

/// An IO-APIC: its register page and the interrupt inputs it has.
#[derive(Clone, Copy, Debug)]
struct IoApic {
    page: usize,
    first: u32,
    inputs: u32,
}

impl IoApic {
    fn read(&self, register: u32) -> u32 {
        // SAFETY: the register page is mapped uncached in the physical map; select, then access.
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

const REDIRECTION: u32 = 0x10;
const REDIRECT_MASKED: u32 = 1 << 16;
const REDIRECT_LEVEL: u32 = 1 << 15;
const REDIRECT_LOW: u32 = 1 << 13;
/// More IO-APICs than any machine this runs on has legacy lines on.
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

/// Adds an IO-APIC, all its inputs masked.
pub fn add_io_apic(address: usize, first: u32) {
    if !phys::is_mapped(address, 0x20) {
        log::error!("IO-APIC at {address:#x} is out of reach and not used");
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
        first + controller.inputs
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

/// Masks or unmasks a legacy line (0..16), delivered to the boot processor.
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
    let mut low = u32::from(line + irq::FIRST_VECTOR);
    if masked {
        low |= REDIRECT_MASKED;
    }
    if level {
        low |= REDIRECT_LEVEL;
    }
    if active_low {
        low |= REDIRECT_LOW;
    }
    controller.write(register + 1, local_id() << 24);
    controller.write(register, low);
}
