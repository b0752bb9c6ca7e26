//! Contexts (threads), the round-robin scheduler, wait queues.
//!
//! The kernel runs with interrupts off and is never preempted; it switches only in
//! `WaitQueue::wait`, `yield_now`, `exit_current` and on the way back to user mode. Never call
//! these while a `spin` lock is held.

mod context;
mod wait;

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, Ordering};

use ::syscall::error::{EFAULT, EINVAL, Error, Result};
use spin::Mutex;

pub use context::{Context, ContextRef, State};
pub use wait::{WaitError, WaitQueue, wait_alone, wake};

use crate::arch::{cpu, machine};
use crate::mm::space::AddrSpace;
use crate::time;

/// How long a context may run while others wait, in nanoseconds.
const QUANTUM_NS: u64 = 4_000_000;

/// What the processor is doing.
struct Cpu {
    current: Option<ContextRef>,
    /// When `current` got the processor.
    since: u64,
    /// Who else could run, in order.
    ready: VecDeque<ContextRef>,
}

static CPU: Mutex<Cpu> = Mutex::new(Cpu {
    current: None,
    since: 0,
    ready: VecDeque::new(),
});
/// The current context may have to do something else than return to user mode: give way, stop or
/// end.
static RESCHEDULE: AtomicBool = AtomicBool::new(false);

/// The running context. Panics in the idle loop and in interrupt handlers that hit it.
pub fn current() -> ContextRef {
    try_current().expect("a context is running")
}

/// The running context, `None` in the idle loop.
pub fn try_current() -> Option<ContextRef> {
    CPU.lock().current.clone()
}

/// What `look` says of the running context, `None` in the idle loop. Cheaper than a reference of
/// one's own; `look` must not call this module.
pub fn with_current<T>(look: impl FnOnce(&Context) -> T) -> Option<T> {
    CPU.lock().current.as_deref().map(look)
}

/// The running context's address space; `EFAULT` when it has none.
pub fn current_space() -> Result<Arc<AddrSpace>> {
    with_current(Context::space)
        .flatten()
        .ok_or(Error::new(EFAULT))
}

/// A stopped context without address space, all registers zero, `ext` = `ProcData::default()`.
pub fn new_context() -> Result<ContextRef> {
    Context::new().map(Arc::new)
}

/// Lets a new context run for the first time. `EINVAL` when it was started before or has no space.
pub fn start(context: &ContextRef) -> Result<()> {
    if context.state() != State::New || context.space().is_none() {
        return Err(Error::new(EINVAL));
    }
    make_ready(context);
    Ok(())
}

/// Wakes a context from a wait with `Interrupted`; without effect when it does not wait.
pub fn interrupt(context: &ContextRef) {
    if context.state() == State::Blocked {
        context.set_interrupted(true);
        make_ready(context);
    }
}

/// Ends a context: at once when it never ran, else as soon as it leaves the kernel; a wait ends.
pub fn kill(context: &ContextRef) {
    context.set_killed();
    match context.state() {
        State::New => {
            context.set_state(State::Dead);
            crate::proc::on_exit(context);
            context.leave_space();
            context.leave_machine();
        }
        State::Blocked => {
            context.set_interrupted(true);
            make_ready(context);
        }
        State::Stopped => make_ready(context),
        State::Runnable => RESCHEDULE.store(true, Ordering::Relaxed),
        State::Dead => {}
    }
}

/// Keeps a context out of user mode until `unstop`. It finishes what it does in the kernel first.
pub fn stop(context: &ContextRef) {
    context.set_stopped(true);
    RESCHEDULE.store(true, Ordering::Relaxed);
}

/// Undoes `stop`.
pub fn unstop(context: &ContextRef) {
    context.set_stopped(false);
    if context.state() == State::Stopped {
        make_ready(context);
    }
}

/// Gives the processor to the next runnable context.
pub fn yield_now() {
    {
        let mut cpu = CPU.lock();
        let Cpu { current, ready, .. } = &mut *cpu;
        if ready.is_empty() {
            let detained = current.as_deref().is_some_and(is_detained);
            RESCHEDULE.store(detained, Ordering::Relaxed);
            return;
        }
        ready.extend(current.clone());
    }
    switch();
}

/// Ends the running context. Calls `proc::on_exit` first.
pub fn exit_current() -> ! {
    let context = current();
    // Later waits of the clean-up must not last.
    context.set_killed();
    crate::proc::on_exit(&context);
    context.leave_space();
    context.set_state(State::Dead);
    context.leave_machine();
    drop(context);
    switch();
    unreachable!("an ended context runs again")
}

/// Puts a context at the end of the queue of runnable ones.
fn make_ready(context: &ContextRef) {
    context.set_state(State::Runnable);
    CPU.lock().ready.push_back(context.clone());
    RESCHEDULE.store(true, Ordering::Relaxed);
}

/// Whether a context must not reach user mode.
fn is_detained(context: &Context) -> bool {
    context.is_killed() || context.is_stopped()
}

/// Continues with the next runnable context, or the idle loop. The caller has put the current one
/// where it belongs (ready queue, wait queue) or ended it.
fn switch() {
    let now = time::now_ns();
    let (next, previous) = {
        let mut cpu = CPU.lock();
        let next = cpu.ready.pop_front();
        let detained = next.as_deref().is_some_and(is_detained);
        RESCHEDULE.store(detained, Ordering::Relaxed);
        if let Some(previous) = &cpu.current {
            if next
                .as_ref()
                .is_some_and(|next| Arc::ptr_eq(previous, next))
            {
                // Still its turn; `since` stays so that the run time is counted once.
                return;
            }
            previous.add_run_time(now - cpu.since.min(now));
        }
        cpu.since = now;
        // The idle loop works on any page tables: often the same program goes on after it.
        let machine = next.as_ref().map(|next| next.switch_in());
        (machine, core::mem::replace(&mut cpu.current, next))
    };
    if next.is_some() {
        time::arm_by(now + QUANTUM_NS);
    }
    // An ended context never comes back here, so nothing may be left to drop.
    drop(previous);
    machine::switch_to(next);
}

/// Everything that may keep a context from going (back) to user mode.
pub(crate) fn before_user_mode() {
    while RESCHEDULE.load(Ordering::Relaxed) {
        let context = current();
        if context.is_killed() {
            drop(context);
            exit_current();
        }
        if context.is_stopped() {
            context.set_state(State::Stopped);
            drop(context);
            switch();
        } else {
            drop(context);
            yield_now();
        }
    }
}

/// Whether the current context got other registers during this system call; asking resets it.
pub(crate) fn take_replaced() -> bool {
    with_current(Context::take_replaced).unwrap_or(false)
}

/// Called by the timer interrupt.
pub(crate) fn tick(now: u64) {
    let cpu = CPU.lock();
    if cpu.current.is_none() {
        return;
    }
    if now.saturating_sub(cpu.since) >= QUANTUM_NS && !cpu.ready.is_empty() {
        RESCHEDULE.store(true, Ordering::Relaxed);
    }
    time::arm_by(now + QUANTUM_NS);
}

/// Runs contexts for ever; called once, on the boot stack, which becomes the idle loop's.
pub fn run() -> ! {
    loop {
        if CPU.lock().ready.is_empty() {
            cpu::wait_for_interrupt();
        } else {
            switch();
        }
    }
}
