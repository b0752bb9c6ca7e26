//! What happens after the entry code saved the registers: exceptions, interrupts, system calls.

use core::fmt::Write as _;

use ::syscall::error::ENOMEM;
use kernel_core::area::Prot;
use x86_64::registers::control::Cr2;
use x86_64::registers::rflags::RFlags;

use super::entry::Frame;
use super::{apic, cpu, irq, smp};
use crate::mm::paging::Disguised;
use crate::mm::{self, USER_END};
use crate::{console, sched, syscall};

const NMI: u64 = 2;
const DOUBLE_FAULT: u64 = 8;
const GENERAL_PROTECTION: u64 = 13;
const PAGE_FAULT: u64 = 14;
const MACHINE_CHECK: u64 = 18;
/// First vector that is no exception.
const FIRST_IRQ: u64 = 32;

const NAMES: [&str; 22] = [
    "Divide error",
    "Debug",
    "Non-maskable interrupt",
    "Breakpoint",
    "Overflow",
    "Bound range exceeded",
    "Invalid opcode",
    "Device not available",
    "Double fault",
    "Coprocessor segment overrun",
    "Invalid TSS",
    "Segment not present",
    "Stack segment fault",
    "General protection",
    "Page fault",
    "Reserved exception",
    "x87 floating point",
    "Alignment check",
    "Machine check",
    "SIMD floating point",
    "Virtualization",
    "Control protection",
];

fn name_of(vector: u64) -> &'static str {
    NAMES.get(vector as usize).copied().unwrap_or("Unknown")
}

/// Called by the entry code for every vector. Interrupts are off.
///
/// The frame is no reference here and below: while this processor waits for the lock or runs
/// another context, others may write to it (see `MachineState`).
pub extern "C" fn interrupt(frame: *mut Frame) {
    // Read before the lock is there, as in `system_call`.
    // SAFETY: the entry code has just written the frame to this stack. Volatile, so that the loads
    // stay where they are.
    let [vector, error, cs] = unsafe {
        [
            &raw const (*frame).vector,
            &raw const (*frame).error,
            &raw const (*frame).cs,
        ]
        .map(|word| word.read_volatile())
    };
    let from_user = cs & 3 == 3;
    if vector == NMI && smp::is_stopping() {
        cpu::halt();
    }
    // Interrupts are on in user mode and in the idle loop only, where a processor does not have the
    // lock. An exception in the kernel is a copy's from or to user memory, by who has the lock; or
    // it ends in a panic, which asks for no lock.
    let outside = from_user || vector >= FIRST_IRQ;
    if outside {
        smp::enter();
    }
    if vector >= FIRST_IRQ {
        irq::dispatch(vector as u8);
    } else if from_user && !on_own_stack(vector) && sched::is_replaced() {
        // Of registers that the context has no more: it goes on with those it was given while this
        // processor waited for the lock.
    } else {
        // SAFETY: as above; others write to the frame only while this processor waits for the lock
        // or another context runs, and neither happens before this returns.
        exception(vector, error, from_user, unsafe { &mut *frame });
    }
    if from_user {
        leave(frame);
    }
    if outside {
        smp::leave();
    }
}

/// Called by the entry code for a system call.
pub extern "C" fn system_call(frame: *mut Frame) {
    // Read before the lock is there: while this processor waits for it, another one may give the
    // context new registers, which are not the arguments of this call.
    // SAFETY: the entry code has just written the frame to this stack. Volatile, so that the loads
    // stay where they are.
    let [number, b, c, d, e, f, g] = unsafe {
        [
            &raw const (*frame).rax,
            &raw const (*frame).rdi,
            &raw const (*frame).rsi,
            &raw const (*frame).rdx,
            &raw const (*frame).r10,
            &raw const (*frame).r8,
            &raw const (*frame).r9,
        ]
        .map(|register| register.read_volatile() as usize)
    };
    smp::enter();
    let result = syscall::dispatch(number, b, c, d, e, f, g);
    // A call that gave this context new registers (another program) leaves them alone.
    if !sched::take_replaced() {
        // SAFETY: the frame is where it was, and who has the lock may write to it.
        unsafe { (*frame).rax = result as u64 };
    }
    leave(frame);
    smp::leave();
}

/// Everything to be done before user mode continues, but for giving the lock back. `frame` is the
/// one on this stack.
pub fn leave(frame: *mut Frame) {
    if sched::before_user_mode() {
        crate::scheme::exit_current();
    }
    // Registers that were set until now are used from here on.
    sched::take_replaced();
    // SAFETY: the frame of the context that runs here, which has the lock: nobody writes to it.
    let frame = unsafe { &*frame };
    // SYSRET and IRET would fault in the kernel on a bad address: end the program instead.
    if frame.rip >= USER_END as u64 {
        user_exception(frame, GENERAL_PROTECTION, 0, 0, "");
    }
}

/// Whether an exception's frame is not where others look for the context's registers. It is no
/// fault of these either.
fn on_own_stack(vector: u64) -> bool {
    matches!(vector, NMI | DOUBLE_FAULT | MACHINE_CHECK)
}

fn exception(vector: u64, error: u64, from_user: bool, frame: &mut Frame) {
    let address = if vector == PAGE_FAULT {
        Cr2::read_raw() as usize
    } else {
        0
    };
    if vector == PAGE_FAULT
        && !from_user
        && let Some(next) = mm::user::after_fault(frame.rip, address)
    {
        frame.rip = next;
        return;
    }
    if !from_user || vector == NMI || vector == DOUBLE_FAULT {
        kernel_exception(frame, vector, error, address);
    }
    let mut reason = "";
    if vector == PAGE_FAULT {
        match page_fault(error, address) {
            Ok(()) => return,
            Err(why) => reason = why,
        }
    }
    user_exception(frame, vector, error, address, reason);
}

/// Brings the page in, or says why not.
fn page_fault(error: u64, address: usize) -> Result<(), &'static str> {
    let mut need = Prot::READ;
    need.set(Prot::WRITE, error & 2 != 0);
    need.set(Prot::EXEC, error & 16 != 0);
    // A reserved bit in a table is a kernel bug, no missing page.
    if error & 8 != 0 {
        return Err("corrupt page table");
    }
    let space = sched::current_space().map_err(|_| "no address space")?;
    space.fault(address, need).map_err(|why| {
        if why.errno == ENOMEM {
            "out of memory"
        } else if space.is_mapped(address) {
            "not allowed"
        } else {
            "not mapped"
        }
    })
}

/// Reports an exception of the running program and ends its context.
fn user_exception(frame: &Frame, vector: u64, error: u64, address: usize, reason: &str) -> ! {
    let context = sched::current();
    let mut text = alloc::string::String::new();
    let name = name_of(vector);
    // Writing to a string does not fail.
    let _ = write!(
        text,
        "EXCEPTION {name} in {}",
        crate::proc::describe(&context)
    );
    if vector == PAGE_FAULT {
        let _ = write!(text, ": {} {}", access(error), Address(address));
        let _ = write!(text, " ({reason})");
    }
    let _ = writeln!(text, ", error code {error:#x}");
    registers(&mut text, frame);
    console::write_report(&text);
    crate::proc::on_exception(&context, vector as u8, error, address);
    // `exit_current` never returns, so nothing may be left to drop here.
    drop(context);
    drop(text);
    crate::scheme::exit_current()
}

/// What a page fault's error code says was tried.
fn access(error: u64) -> &'static str {
    if error & 16 != 0 {
        "instruction fetch from"
    } else if error & 2 != 0 {
        "store to"
    } else {
        "load from"
    }
}

/// An address in a sentence: a program may have tried the kernel's, which nobody shall read.
struct Address(usize);

impl core::fmt::Display for Address {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        if self.0 < USER_END {
            write!(f, "{:#x}", self.0)
        } else {
            f.write_str("the kernel's half")
        }
    }
}

/// Prints registers; what may be an address of the kernel only as [`Disguised`] shows it.
fn registers(out: &mut impl core::fmt::Write, f: &Frame) {
    let lines: [&[(&str, u64)]; 5] = [
        &[("rip", f.rip), ("rsp", f.rsp)],
        &[
            ("rax", f.rax),
            ("rbx", f.rbx),
            ("rcx", f.rcx),
            ("rdx", f.rdx),
        ],
        &[
            ("rsi", f.rsi),
            ("rdi", f.rdi),
            ("rbp", f.rbp),
            ("r8 ", f.r8),
        ],
        &[
            ("r9 ", f.r9),
            ("r10", f.r10),
            ("r11", f.r11),
            ("r12", f.r12),
        ],
        &[("r13", f.r13), ("r14", f.r14), ("r15", f.r15)],
    ];
    // Output to a string or the port does not fail.
    for (number, line) in lines.into_iter().enumerate() {
        for &(name, value) in line {
            let _ = write!(out, "  {name} {}", Disguised(value as usize));
        }
        if number == 0 {
            let _ = write!(
                out,
                "  rflags {:08x}  cs {:02x}  ss {:02x}",
                f.rflags, f.cs, f.ss
            );
        }
        let _ = out.write_str("\n");
    }
}

/// An exception in the kernel itself is a bug (or broken hardware): report and stop.
fn kernel_exception(frame: &Frame, vector: u64, error: u64, address: usize) -> ! {
    let mut out = console::Emergency::new();
    let _ = out.write_str("\n");
    registers(&mut out, frame);
    let name = name_of(vector);
    let overflow = mm::stack::is_guard(frame.rsp as usize) || mm::stack::is_guard(address);
    panic!(
        "exception {name} in the kernel at {}, address {}, error code {error:#x}{}",
        Disguised(frame.rip as usize),
        Disguised(address),
        if overflow {
            " (kernel stack overflow)"
        } else {
            ""
        }
    );
}

/// The flags a program may have: arithmetic, DF, TF, AC, ID; interrupts always on.
pub fn user_flags(wanted: u64) -> u64 {
    const FREE: u64 = RFlags::CARRY_FLAG
        .union(RFlags::PARITY_FLAG)
        .union(RFlags::AUXILIARY_CARRY_FLAG)
        .union(RFlags::ZERO_FLAG)
        .union(RFlags::SIGN_FLAG)
        .union(RFlags::TRAP_FLAG)
        .union(RFlags::DIRECTION_FLAG)
        .union(RFlags::OVERFLOW_FLAG)
        .union(RFlags::ALIGNMENT_CHECK)
        .union(RFlags::ID)
        .bits();
    wanted & FREE | RFlags::INTERRUPT_FLAG.bits() | 2
}

/// Turns all sources of interrupts off and stops the other processors; for a panic.
pub fn quiesce() {
    smp::stop_others();
    apic::disable();
    x86_64::instructions::interrupts::disable();
}
