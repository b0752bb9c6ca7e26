//! The step after the entry code, which has saved the registers: dispatches interrupts, and calls
//! the handlers of the higher layers for system calls and exceptions.

use x86_64::registers::control::Cr2;

use super::frame::Frame;
use super::handlers::{DOUBLE_FAULT, Exception, GENERAL_PROTECTION, NMI, PAGE_FAULT, handlers};
use super::{apic, irq, machine, smp};
use crate::mm::{self, USER_END};

/// First vector that is not an exception.
const FIRST_IRQ: u64 = 32;

/// Called by the entry code for every vector. Interrupts are off.
///
/// Here and below the frame is no reference: while this processor waits for the lock or runs
/// another context, others may write to the frame (see `MachineState`).
pub extern "C" fn interrupt(frame: *mut Frame) {
    // Read before this processor has the lock, as in `system_call`.
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
        smp::stop_here();
    }
    // Interrupts are on only in user mode and in the idle loop, where a processor does not have
    // the lock. An exception in the kernel either comes from a copy from or to user memory, by the
    // processor that has the lock, or it ends in a panic, which takes no lock.
    let outside = from_user || vector >= FIRST_IRQ;
    if outside {
        smp::enter();
    }
    if vector >= FIRST_IRQ {
        irq::dispatch(vector as u8);
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
    // Read before this processor has the lock: while it waits, another processor may give the
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
    if let Some(result) = (handlers().system_call)(number, [b, c, d, e, f, g]) {
        // SAFETY: the frame is where it was, and who has the lock may write to it.
        unsafe { (*frame).rax = result as u64 };
    }
    leave(frame);
    smp::leave();
}

/// A context's first step, called on its own stack by the entry code.
pub extern "C" fn first_run(frame: *mut Frame) {
    machine::forget_left();
    leave(frame);
    smp::leave();
}

/// Everything that has to be done before user mode continues, except for giving the lock back.
/// `frame` is the one on this stack.
fn leave(frame: *mut Frame) {
    (handlers().before_user_mode)();
    // SAFETY: the frame of the context that runs here, which has the lock: nobody writes to it.
    let frame = unsafe { &*frame };
    // SYSRET and IRET would fault in the kernel at a bad address: end the program instead.
    if frame.rip >= USER_END as u64 {
        (handlers().exception)(&Exception {
            vector: GENERAL_PROTECTION,
            error: 0,
            address: 0,
            frame,
        });
    }
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
    let exception = Exception {
        vector,
        error,
        address,
        frame,
    };
    if !from_user || vector == NMI || vector == DOUBLE_FAULT {
        (handlers().kernel_exception)(&exception);
    }
    (handlers().exception)(&exception);
}

/// Turns off all sources of interrupts and stops the other processors, for a panic. If there are
/// others, returns how many of them have stopped, and how many there are.
pub fn quiesce() -> Option<(u32, u32)> {
    smp::stop_others();
    apic::disable();
    x86_64::instructions::interrupts::disable();
    smp::wait_for_stopped()
}
