//! The functions of higher layers that the kernel's entries call, and what they are called with.

use spin::Once;

use super::frame::Frame;

/// Vector of the non-maskable interrupt.
pub const NMI: u64 = 2;
/// Vector of a double fault.
pub const DOUBLE_FAULT: u64 = 8;
/// Vector of a general protection fault.
pub const GENERAL_PROTECTION: u64 = 13;
/// Vector of a page fault.
pub const PAGE_FAULT: u64 = 14;
/// Vector of a machine check.
const MACHINE_CHECK: u64 = 18;

/// The functions of higher layers. All are called with the lock held and interrupts off, except
/// where it says otherwise.
pub struct Handlers {
    /// Performs a system call, by number and arguments. Returns the new value of rax; `None` when
    /// the context has new registers.
    pub system_call: fn(usize, [usize; 6]) -> Option<usize>,
    /// Handles an exception of the running program. Returns when the program can continue.
    pub exception: fn(&Exception<'_>),
    /// Reports an exception of the kernel. Called without the lock or with it.
    pub kernel_exception: fn(&Exception<'_>) -> !,
    /// Handles everything that may keep a context from going to user mode.
    pub before_user_mode: fn(),
    /// Loads the state of the context that runs here again: this processor had given it up.
    pub resume: fn(),
    /// Runs contexts for ever, on a processor that has started.
    pub run: fn() -> !,
}

/// An exception and the registers of the interrupted code.
pub struct Exception<'a> {
    /// The exception's vector, 0 to 31.
    pub vector: u64,
    /// The processor's error code, or 0.
    pub error: u64,
    /// The faulting address of a page fault, otherwise 0.
    pub address: usize,
    /// The registers.
    pub frame: &'a Frame,
}

impl Exception<'_> {
    /// Whether the frame is not at the place where others look for the context's registers. Then
    /// the exception is no fault of the context's registers either.
    pub fn is_on_own_stack(&self) -> bool {
        matches!(self.vector, NMI | DOUBLE_FAULT | MACHINE_CHECK)
    }
}

static HANDLERS: Once<Handlers> = Once::new();

/// Sets the functions that the kernel's entries call. Called once, before the first program.
pub fn init_handlers(handlers: Handlers) {
    HANDLERS.call_once(|| handlers);
}

pub(super) fn handlers() -> &'static Handlers {
    HANDLERS.get().expect("handlers are set at boot")
}
