//! Contexts (threads), the round-robin scheduler, wait queues.
//!
//! The kernel runs with interrupts off and is never preempted; it switches only in
//! `WaitQueue::wait`, `yield_now`, `exit_current` and on the way back to user mode. Never call
//! these while a `spin` lock is held.

use alloc::sync::Arc;

use spin::Mutex;
use ::syscall::IntRegisters;
use ::syscall::error::Result;

use crate::mm::space::AddrSpace;
use crate::proc::ProcData;

/// Shared reference to a context.
pub type ContextRef = Arc<Context>;

/// A thread of execution.
pub struct Context {
    /// Number for logs and keys; never reused.
    pub id: u64,
    /// What the upper half (process model) keeps with a context.
    pub ext: Mutex<ProcData>,
}

/// What a context is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Made, never started.
    New,
    /// Running or waiting for the processor.
    Runnable,
    /// In a wait queue.
    Blocked,
    /// Stopped by `stop`.
    Stopped,
    /// Ended; only its record is left.
    Dead,
}

/// Why a wait ended without its condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitError {
    /// `interrupt` or `kill`. After `kill` every later wait ends so at once (`Context::is_killed`).
    Interrupted,
    /// The deadline passed.
    TimedOut,
}

impl Context {
    /// What the context is doing.
    pub fn state(&self) -> State {
        unfilled()
    }

    /// Whether `kill` was called (it ends when it next leaves the kernel).
    pub fn is_killed(&self) -> bool {
        unfilled()
    }

    /// The address space, `None` for a new context or after the end.
    pub fn space(&self) -> Option<Arc<AddrSpace>> {
        unfilled()
    }

    /// Gives the context another address space; effective at once, also for the current one.
    /// The mappings of a space that no context uses any more stay until its last reference goes.
    pub fn set_space(&self, space: Option<Arc<AddrSpace>>) {
        let _ = space;
        unfilled()
    }

    /// Sets where user mode (re)starts: instruction pointer, stack pointer and rsi; all other
    /// registers become zero. For a new, a blocked or the current context. `EINVAL` unless `ip`
    /// is below 2^47.
    pub fn set_entry(&self, ip: usize, sp: usize, rsi: usize) -> Result<()> {
        let _ = (ip, sp, rsi);
        unfilled()
    }

    /// The user registers as saved at the last entry to the kernel.
    pub fn registers(&self) -> IntRegisters {
        unfilled()
    }

    /// Replaces the user registers; selectors and privileged flags are kept sane.
    pub fn set_registers(&self, registers: &IntRegisters) {
        let _ = registers;
        unfilled()
    }

    /// FS and GS base.
    pub fn bases(&self) -> (usize, usize) {
        unfilled()
    }

    /// Sets FS and GS base; `EINVAL` when one is not below 2^47.
    pub fn set_bases(&self, fs: usize, gs: usize) -> Result<()> {
        let _ = (fs, gs);
        unfilled()
    }

    /// The floating point state in FXSAVE layout.
    pub fn float_state(&self) -> [u8; 512] {
        unfilled()
    }

    /// Replaces the floating point state (FXSAVE layout; reserved MXCSR bits are cleared).
    pub fn set_float_state(&self, state: &[u8; 512]) {
        let _ = state;
        unfilled()
    }

    /// Nanoseconds this context has run.
    pub fn run_time(&self) -> u64 {
        unfilled()
    }
}

/// The running context. Panics in the idle loop and in interrupt handlers that hit it.
pub fn current() -> ContextRef {
    unfilled()
}

/// The running context, `None` in the idle loop.
pub fn try_current() -> Option<ContextRef> {
    unfilled()
}

/// The running context's address space; `EFAULT` when it has none.
pub fn current_space() -> Result<Arc<AddrSpace>> {
    unfilled()
}

/// A stopped context without address space, all registers zero, `ext` = `ProcData::default()`.
pub fn new_context() -> Result<ContextRef> {
    unfilled()
}

/// Lets a new context run for the first time. `EINVAL` when it was started before or has no space.
pub fn start(context: &ContextRef) -> Result<()> {
    let _ = context;
    unfilled()
}

/// Wakes a context from a wait with `Interrupted`; without effect when it does not wait.
pub fn interrupt(context: &ContextRef) {
    let _ = context;
    unfilled()
}

/// Ends a context: at once when it never ran, else as soon as it leaves the kernel; a wait ends.
pub fn kill(context: &ContextRef) {
    let _ = context;
    unfilled()
}

/// Keeps a context out of user mode until `unstop`. It finishes what it does in the kernel first.
pub fn stop(context: &ContextRef) {
    let _ = context;
    unfilled()
}

/// Undoes `stop`.
pub fn unstop(context: &ContextRef) {
    let _ = context;
    unfilled()
}

/// Gives the processor to the next runnable context.
pub fn yield_now() {
    unfilled()
}

/// Ends the running context. Calls `proc::on_exit` first.
pub fn exit_current() -> ! {
    unfilled()
}

/// Contexts waiting for something.
#[derive(Default)]
pub struct WaitQueue {
    _todo: (),
}

impl WaitQueue {
    /// An empty queue.
    pub const fn new() -> Self {
        WaitQueue { _todo: () }
    }

    /// Blocks the current context until `condition` gives a value. It is tried first at once, then
    /// after each wake-up. `deadline` is absolute monotonic nanoseconds. The condition is called
    /// without locks of this module held and must not block.
    pub fn wait<T>(
        &self,
        deadline: Option<u64>,
        condition: impl FnMut() -> Option<T>,
    ) -> core::result::Result<T, WaitError> {
        let _ = (deadline, condition);
        unfilled()
    }

    /// Wakes the context that has waited longest.
    pub fn wake_one(&self) -> bool {
        unfilled()
    }

    /// Wakes all.
    pub fn wake_all(&self) {
        unfilled()
    }
}

fn unfilled() -> ! {
    panic!("not filled yet")
}
