//! The entries of the kernel: system calls, page faults, exceptions, and the way back to user
//! mode. `arch` saves the registers and calls this module.

use core::fmt::Write as _;

use ::syscall::error::ENOMEM;
use kernel_core::area::Prot;
use kernel_core::rate::Rate;
use spin::Mutex;

use crate::arch::{Exception, Frame, Handlers, PAGE_FAULT};
use crate::mm::paging::MaskedAddress;
use crate::mm::{self, USER_END};
use crate::{arch, console, proc, sched, scheme, syscall, time};

/// Connects the lower layers to the higher ones. Called once at boot, before the first program.
pub fn init() {
    mm::user::init(sched::current_space);
    arch::init_handlers(Handlers {
        system_call,
        exception,
        kernel_exception,
        before_user_mode,
        resume: sched::resume,
        run: sched::run,
    });
}

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

fn system_call(number: usize, arguments: [usize; 6]) -> Option<usize> {
    let result = syscall::dispatch(number, arguments);
    // A call that gave this context new registers (another program) must not overwrite them.
    (!sched::take_replaced()).then_some(result)
}

fn before_user_mode() {
    if sched::before_user_mode() {
        scheme::exit_current();
    }
    // Registers that were set before this point take effect now.
    sched::take_replaced();
}

/// Handles an exception of the running program. Returns when the program can continue.
fn exception(exception: &Exception<'_>) {
    if !exception.is_on_own_stack() && sched::is_replaced() {
        // The exception belongs to registers that were replaced while this processor waited for
        // the lock: the context continues with the new ones.
        return;
    }
    let mut reason = "";
    if exception.vector == PAGE_FAULT {
        match page_fault(exception.error, exception.address) {
            Ok(()) => return,
            Err(why) => reason = why,
        }
    }
    end_program(exception, reason)
}

/// Makes the page present. On failure, returns the reason for the report.
fn page_fault(error: u64, address: usize) -> Result<(), &'static str> {
    let mut need = Prot::READ;
    need.set(Prot::WRITE, error & 2 != 0);
    need.set(Prot::EXEC, error & 16 != 0);
    // A reserved bit in a table is a bug of the kernel, not a missing page.
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

/// Most reports with registers in a second. The port is slow, nothing else runs in the kernel while
/// it takes them, and any user can start programs that fail.
const MOST_WITH_REGISTERS: u32 = 8;

static WITH_REGISTERS: Mutex<Rate> = Mutex::new(Rate::new());

/// Reports an exception of the running program and ends its context.
fn end_program(exception: &Exception<'_>, reason: &str) -> ! {
    let &Exception {
        vector,
        error,
        address,
        frame,
    } = exception;
    let context = sched::current();
    let mut text = alloc::string::String::new();
    let name = name_of(vector);
    // Writing to a string does not fail.
    let _ = write!(text, "EXCEPTION {name} in {}", proc::describe(&context));
    if vector == PAGE_FAULT {
        let _ = write!(text, ": {} {}", access(error), Address(address));
        let _ = write!(text, " ({reason})");
    }
    let _ = writeln!(text, ", error code {error:#x}");
    let now = time::now_ns();
    if WITH_REGISTERS.lock().admits(now, MOST_WITH_REGISTERS) {
        registers(&mut text, frame);
    }
    console::write_report(&text);
    proc::on_exception(&context, vector as u8, error, address);
    // `exit_current` never returns, so nothing may be left to drop here.
    drop(context);
    drop(text);
    scheme::exit_current()
}

/// The kind of access in a page fault's error code.
fn access(error: u64) -> &'static str {
    if error & 16 != 0 {
        "instruction fetch from"
    } else if error & 2 != 0 {
        "store to"
    } else {
        "load from"
    }
}

/// An address in a report. Addresses of the kernel, which a program may have tried, are not shown.
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

/// Prints registers; values that may be addresses of the kernel as [`MaskedAddress`] shows them.
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
            let _ = write!(out, "  {name} {}", MaskedAddress(value as usize));
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

/// Reports an exception in the kernel itself, which is a bug or broken hardware, and stops.
fn kernel_exception(exception: &Exception<'_>) -> ! {
    let &Exception {
        vector,
        error,
        address,
        frame,
    } = exception;
    let mut out = console::Emergency::new();
    let _ = out.write_str("\n");
    registers(&mut out, frame);
    let name = name_of(vector);
    let overflow = mm::stack::is_guard(frame.rsp as usize) || mm::stack::is_guard(address);
    panic!(
        "exception {name} in the kernel at {}, address {}, error code {error:#x}{}",
        MaskedAddress(frame.rip as usize),
        MaskedAddress(address),
        if overflow {
            " (kernel stack overflow)"
        } else {
            ""
        }
    );
}
