//! Contexts (threads), the scheduler, wait queues.
//!
//! `kernel_core::ready` decides which context runs next, and for how long; this module carries out
//! the decisions.
//!
//! The kernel runs with interrupts off, on one processor at a time (`arch::smp`), and is never
//! preempted. It switches contexts only in `WaitQueue::wait`, `yield_now`, `finish_exit` and on
//! the way back to user mode. Never call these while a `spin` lock is held. A context can continue
//! on another processor than before.

mod context;
pub mod futex;
pub mod idle_poll;
mod wait;

use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use ::syscall::error::{EFAULT, EINVAL, ENOMEM, Error, Result};
use kernel_core::ready::{self, Kind, Ready, Run};
use spin::Mutex;

pub use context::{Context, ContextRef, Extension, State};
pub use wait::{WaitError, WaitQueue, wait_alone, wake};

use crate::arch::{cpu, machine, smp};
use crate::mm::paging;
use crate::mm::space::AddrSpace;
use crate::time;

/// The context that a processor runs, and its accounting.
struct Cpu {
    current: Option<Run<ContextRef>>,
    /// The time up to which `current`'s run time is counted.
    since: u64,
    /// How long contexts have run here until then, in nanoseconds.
    busy: u64,
    turns: ready::Processor,
}

impl Cpu {
    /// Counts the time that `current` has run until `now`.
    fn charge(&mut self, now: u64) {
        // The caller may have taken the time before a wake-up charged this processor.
        let ns = now.saturating_sub(self.since);
        self.since = self.since.max(now);
        if let Some(run) = &mut self.current {
            run.context.add_run_time(ns);
            self.busy = self.busy.saturating_add(ns);
            self.turns.ran(run, ns);
        }
    }
}

static CPUS: [Mutex<Cpu>; cpu::MAX] = [const {
    Mutex::new(Cpu {
        current: None,
        since: 0,
        busy: 0,
        turns: ready::Processor::new(),
    })
}; cpu::MAX];
/// The ready contexts: each runs on the first processor that asks and is allowed. Locked after a
/// processor.
static READY: Mutex<Ready<ContextRef>> = Mutex::new(Ready::new());
/// By processor: whether its context may have to give way, stop or end before it returns to user
/// mode.
static RESCHEDULE: [AtomicBool; cpu::MAX] = [const { AtomicBool::new(false) }; cpu::MAX];
/// The processors that sleep in the idle loop and have not been called, as bits.
static IDLE: AtomicU64 = AtomicU64::new(0);

/// The record of this processor.
fn here() -> &'static Mutex<Cpu> {
    &CPUS[cpu::index()]
}

/// Counts the time that all running contexts have run until now.
pub fn charge_all() {
    let now = time::now_ns();
    for cpu in &CPUS {
        cpu.lock().charge(now);
    }
}

/// How long each processor has run contexts until now and has run none, in nanoseconds.
pub fn processor_times() -> impl Iterator<Item = (usize, u64, u64)> {
    let now = time::now_ns();
    smp::numbers(smp::online()).map(move |number| {
        let mut cpu = CPUS[number].lock();
        cpu.charge(now);
        (number, cpu.busy, now.saturating_sub(cpu.busy))
    })
}

fn set_reschedule(reschedule: bool) {
    RESCHEDULE[cpu::index()].store(reschedule, Ordering::Relaxed);
}

/// The running context. Panics in the idle loop and in interrupt handlers that interrupt it.
pub fn current() -> ContextRef {
    try_current().expect("a context is running")
}

/// The context that runs on this processor, `None` in the idle loop.
pub fn try_current() -> Option<ContextRef> {
    let here = here().lock();
    here.current.as_ref().map(|run| run.context.clone())
}

/// The result of `look` for the running context, `None` in the idle loop. This is cheaper than a
/// reference; `look` must not call this module.
pub fn with_current<T>(look: impl FnOnce(&Context) -> T) -> Option<T> {
    let here = here().lock();
    here.current.as_ref().map(|run| look(&run.context))
}

/// The processor that runs a context.
pub fn processor_of(context: &Context) -> Option<usize> {
    let last = context.last_processor();
    let cpu = CPUS[last].lock();
    cpu.current
        .as_ref()
        .is_some_and(|run| core::ptr::eq(&*run.context, context))
        .then_some(last)
}

/// Makes sure that a context is not in user mode on another processor until the caller leaves the
/// kernel, so that its registers are in memory.
fn bring_in(context: &Context) {
    if !cpu::several() {
        return;
    }
    if let Some(processor) = processor_of(context)
        && processor != cpu::index()
    {
        smp::displace(processor);
    }
}

/// Called when this processor has given up its context's page tables and continues.
pub(crate) fn resume() {
    with_current(Context::load);
}

/// The running context's address space; `EFAULT` when it has none.
pub fn current_space() -> Result<Arc<AddrSpace>> {
    with_current(Context::space)
        .flatten()
        .ok_or(Error::new(EFAULT))
}

/// A stopped context without address space, with all registers zero and the data of a higher
/// layer. `ENOMEM`.
pub fn new_context(extension: Extension) -> Result<ContextRef> {
    let context = Context::new(extension)?;
    // It must not lack a place in a queue when it is woken.
    match READY.lock().make_room(context::count()) {
        true => Ok(Arc::new(context)),
        false => Err(Error::new(ENOMEM)),
    }
}

/// Lets a new context run for the first time. `EINVAL` when it was started before or has no space.
pub fn start(context: &ContextRef) -> Result<()> {
    if context.state() != State::New || context.space().is_none() {
        return Err(Error::new(EINVAL));
    }
    make_ready(context);
    Ok(())
}

/// Ends a context's wait with `Interrupted`; no effect when it does not wait. A context that was
/// woken but has not checked its condition since still waits: perhaps it was woken in vain.
pub fn interrupt(context: &ContextRef) {
    if context.is_waiting() {
        context.set_interrupted(true);
        wake(context);
    }
}

/// Ends a context as soon as it leaves the kernel; ends its wait. True when it never ran: then it
/// has ended already, and the caller has to [`leave`] it.
pub fn kill(context: &ContextRef) -> bool {
    context.set_killed();
    match context.state() {
        State::New => {
            context.set_state(State::Dead);
            return true;
        }
        State::Blocked => {
            context.set_interrupted(true);
            make_ready(context);
        }
        State::Stopped => make_ready(context),
        State::Runnable => detain(context),
        State::Dead => {}
    }
    false
}

/// Keeps a context out of user mode until `unstop`. The context first finishes its work in the
/// kernel.
pub fn stop(context: &ContextRef) {
    context.set_stopped(true);
    detain(context);
}

/// Makes a context check whether it has to end or stop, before its next step in user mode.
fn detain(context: &Context) {
    if let Some(processor) = processor_of(context) {
        RESCHEDULE[processor].store(true, Ordering::Relaxed);
    }
    set_reschedule(true);
    bring_in(context);
}

/// Undoes `stop`.
pub fn unstop(context: &ContextRef) {
    context.set_stopped(false);
    if context.state() == State::Stopped {
        make_ready(context);
    }
}

/// Why a context that could continue lets others run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reason {
    /// Its turn is over, or another context was woken.
    Turn,
    /// The context yielded.
    Yield,
}

/// Lets other contexts that can run go first.
pub fn yield_now() {
    give_way(Reason::Yield);
}

fn give_way(reason: Reason) {
    let this = cpu::index();
    if reason == Reason::Yield {
        idle_poll::look(time::now_ns);
    }
    let Some((may_stay, detained)) =
        with_current(|context| (context.may_run_on(this), is_detained(context)))
    else {
        return;
    };
    if may_stay && !is_wanted() {
        set_reschedule(detained);
        return;
    }
    {
        let mut cpu = here().lock();
        cpu.charge(time::now_ns());
        let Cpu { current, turns, .. } = &mut *cpu;
        let Some(run) = current.clone() else {
            return;
        };
        let mut ready = READY.lock();
        match reason {
            Reason::Turn => ready.put_back(run),
            Reason::Yield => ready.yields(run, turns),
        }
    }
    let context = current();
    if !may_stay || IDLE.load(Ordering::Relaxed) & context.processors() != 0 {
        announce(&context);
    }
    drop(context);
    switch();
}

/// Begins the end of the running context: from now on its waits end at once.
pub fn begin_exit() -> ContextRef {
    let context = current();
    context.set_killed();
    context
}

/// Takes the address space of a context that ends and, once it no longer runs, its kernel stack.
pub fn leave(context: &Context) {
    context.leave_space();
    context.leave_machine();
}

/// Ends the running context, of which nothing else may be left on the stack.
pub fn finish_exit(context: ContextRef) -> ! {
    context.set_state(State::Dead);
    drop(context);
    switch();
    unreachable!("an ended context runs again")
}

/// Makes a waiting context ready to run, and has a processor take it.
fn make_ready(context: &ContextRef) {
    context.set_state(State::Runnable);
    READY.lock().wake(context.clone());
    announce(context);
}

/// Has a processor take a context that became ready: a sleeping one if there is one, else one that
/// computes, else this one if the context may run here. A processor whose turn must not be
/// interrupted takes the context when that turn ends.
fn announce(context: &Context) {
    let set = context.processors();
    let this = cpu::index();
    let idle = IDLE.load(Ordering::Relaxed);
    let mut sleepers = smp::numbers(idle & set);
    if idle & set & 1 << this != 0 {
        // This is an interrupt in the idle loop, which checks for contexts when it returns.
        IDLE.store(idle & !(1 << this), Ordering::Relaxed);
        return;
    }
    if let Some(sleeper) = sleepers.next() {
        IDLE.store(idle & !(1 << sleeper), Ordering::Relaxed);
        smp::call(sleeper);
        return;
    }
    let here = (set & 1 << this != 0).then_some(this);
    let interruptible = |kind| {
        let others = smp::numbers(set & smp::online() & !(1 << this));
        let mut all = here.into_iter().chain(others);
        all.find(|&number| is_interruptible(number, kind))
    };
    let found = interruptible(Kind::Computing).or_else(|| interruptible(Kind::Woken));
    if let Some(found) = found {
        RESCHEDULE[found].store(true, Ordering::Relaxed);
        if found != this {
            smp::call(found);
        }
    } else if here.is_some() {
        // The present turn may have to end earlier than planned at its beginning.
        let cpu = CPUS[this].lock();
        time::arm_by(cpu.since.saturating_add(rest_of(&cpu)));
    }
}

/// Whether a processor runs a context of this kind that a wake-up may interrupt.
fn is_interruptible(number: usize, kind: Kind) -> bool {
    let mut cpu = CPUS[number].lock();
    cpu.charge(time::now_ns());
    let Cpu { current, turns, .. } = &*cpu;
    let run = current.as_ref();
    run.is_some_and(|run| run.kind() == kind && turns.is_interruptible(run))
}

/// How long, in nanoseconds from `since` on, the context of a processor may continue. `u64::MAX`
/// when only a wake-up ends its turn.
fn rest_of(cpu: &Cpu) -> u64 {
    let this = cpu::index();
    // Another processor puts contexts back without telling this one, which has to check for them.
    let longest = if cpu::several() {
        ready::SLICE_NS
    } else {
        u64::MAX
    };
    let Some(run) = &cpu.current else {
        return longest;
    };
    let may_run = |context: &ContextRef| context.may_run_on(this);
    let rest = READY.lock().rest_ns(run, &cpu.turns, may_run);
    rest.min(longest)
}

/// Whether a context waits for this processor.
fn is_wanted() -> bool {
    let this = cpu::index();
    READY.lock().waits(|context| context.may_run_on(this))
}

/// The numbers of turns so far.
pub fn turns() -> ready::Turns {
    READY.lock().turns()
}

/// How often a processor came to owe a turn to a computing context.
pub fn debts() -> u64 {
    CPUS.iter().map(|cpu| cpu.lock().turns.debts()).sum()
}

/// Restricts a context to these processors, as bits; it may run on any when none of them is
/// online.
pub fn set_processors(context: &ContextRef, set: u64) {
    context.set_processors(set);
    match processor_of(context) {
        Some(processor) if !context.may_run_on(processor) => detain(context),
        // The context may be in the queue while the processors that could take it sleep.
        None if context.state() == State::Runnable => announce(context),
        _ => {}
    }
}

/// Whether a context must not reach user mode.
fn is_detained(context: &Context) -> bool {
    context.is_killed() || context.is_stopped()
}

/// Continues with the next runnable context, or the idle loop. The caller has put the current
/// context where it belongs (ready queue, wait queue) or ended it.
fn switch() {
    let now = time::now_ns();
    let this = cpu::index();
    idle_poll::look(|| now);
    let (next, previous) = {
        let mut cpu = here().lock();
        cpu.charge(now);
        let may_run = |context: &ContextRef| context.may_run_on(this);
        let next = READY.lock().take(&cpu.turns, may_run);
        let detained = next.as_ref().is_some_and(|run| is_detained(&run.context));
        set_reschedule(detained);
        let is_same = |run: &Run<ContextRef>| {
            let previous = cpu.current.as_ref();
            previous.is_some_and(|previous| Arc::ptr_eq(&previous.context, &run.context))
        };
        let stays = next.as_ref().is_some_and(is_same);
        let machine = match &next {
            Some(run) if !stays => Some(run.context.switch_in()),
            _ => None,
        };
        let previous = core::mem::replace(&mut cpu.current, next);
        if cpu.current.is_some() {
            let rest = now.saturating_add(rest_of(&cpu));
            time::arm_by(rest.min(idle_poll::next_look(now)));
        }
        if stays {
            return;
        }
        (machine, previous)
    };
    if next.is_none() && cpu::several() {
        // The program may continue elsewhere. The idle loop of a single processor works on any
        // page tables: often the same program continues after it.
        paging::activate(None);
    }
    // An ended context never returns here, so nothing may be left to drop.
    drop(previous);
    machine::switch_to(next);
}

/// Holds a context that is stopped or has to give way before it goes to user mode. True when it
/// must end instead.
pub(crate) fn before_user_mode() -> bool {
    while RESCHEDULE[cpu::index()].load(Ordering::Relaxed) {
        let context = current();
        if context.is_killed() {
            return true;
        }
        if context.is_stopped() {
            context.set_state(State::Stopped);
            drop(context);
            switch();
        } else {
            drop(context);
            give_way(Reason::Turn);
        }
    }
    false
}

/// Whether the current context's registers were replaced since it was in user mode.
pub(crate) fn is_replaced() -> bool {
    with_current(Context::is_replaced).unwrap_or(false)
}

/// [`is_replaced`], and resets it.
pub(crate) fn take_replaced() -> bool {
    with_current(Context::take_replaced).unwrap_or(false)
}

/// Called by the timer interrupt.
pub(crate) fn tick(now: u64) {
    idle_poll::look(|| now);
    let mut cpu = here().lock();
    if cpu.current.is_none() {
        return;
    }
    cpu.charge(now);
    let rest = rest_of(&cpu);
    if rest == 0 {
        set_reschedule(true);
    }
    let rest = if rest == 0 { ready::SLICE_NS } else { rest };
    time::arm_by(now.saturating_add(rest).min(idle_poll::next_look(now)));
}

/// Has a processor that has halted continue the looks of this one.
fn call_idle() {
    if let Some(other) = smp::numbers(IDLE.load(Ordering::Relaxed)).next() {
        smp::call(other);
    }
}

/// Runs contexts for ever. Called once on each processor, on the stack that becomes the stack of
/// its idle loop.
pub fn run() -> ! {
    let this = 1 << cpu::index();
    let mut has_looked = false;
    loop {
        if is_wanted() {
            if has_looked && idle_poll::needs_looks() {
                call_idle();
            }
            switch();
            continue;
        }
        IDLE.fetch_or(this, Ordering::Relaxed);
        let is_called = || IDLE.load(Ordering::Relaxed) & this == 0;
        has_looked = idle_poll::look_instead_of_halt(is_called);
        if !has_looked {
            smp::idle();
        }
        IDLE.fetch_and(!this, Ordering::Relaxed);
    }
}
