//! A context: its state, machine state, address space and process data.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::any::Any;
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};

use ::syscall::IntRegisters;
use ::syscall::error::{EINVAL, ENOMEM, Error, Result};
use spin::Mutex;

use crate::arch::machine::MachineState;
use crate::arch::{cpu, smp};
use crate::mm::space::AddrSpace;
use crate::mm::{USER_END, paging};

/// Shared reference to a context.
pub type ContextRef = Arc<Context>;

/// Data of a higher layer that belongs to a context.
pub type Extension = Box<dyn Any + Send + Sync>;

/// A thread of execution.
pub struct Context {
    /// Number for logs and keys; never reused.
    pub id: u64,
    /// Data of the process model; the owner of that type casts it back.
    extension: Extension,
    state: AtomicU8,
    killed: AtomicBool,
    stopped: AtomicBool,
    interrupted: AtomicBool,
    /// Whether it is in a wait, also when it was woken and has not run since.
    waiting: AtomicBool,
    /// Whether user registers were set while the context was in the kernel.
    replaced: AtomicBool,
    run_time: AtomicU64,
    /// The processor that runs it or ran it last.
    last_processor: AtomicUsize,
    /// The processors on which it should run, as bits.
    processors: AtomicU64,
    space: Mutex<Option<Arc<AddrSpace>>>,
    /// FS and GS base of user mode.
    bases: Mutex<(usize, usize)>,
    /// `None` after the end.
    machine: Mutex<Option<Arc<MachineState>>>,
}

/// The state of a context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum State {
    /// Made, but never started.
    New,
    /// Running or ready to run.
    Runnable,
    /// In a wait queue.
    Blocked,
    /// Stopped by `stop`.
    Stopped,
    /// Ended; only its record is left.
    Dead,
}

static NEXT_ID: AtomicU64 = AtomicU64::new(1);
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// How many contexts there are.
pub(super) fn count() -> usize {
    COUNT.load(Ordering::Relaxed)
}

impl Drop for Context {
    fn drop(&mut self) {
        COUNT.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Context {
    /// See `sched::new_context`.
    pub(super) fn new(extension: Extension) -> Result<Context> {
        let machine = MachineState::new().ok_or(Error::new(ENOMEM))?;
        COUNT.fetch_add(1, Ordering::Relaxed);
        Ok(Context {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            extension,
            state: AtomicU8::new(State::New as u8),
            killed: AtomicBool::new(false),
            stopped: AtomicBool::new(false),
            interrupted: AtomicBool::new(false),
            waiting: AtomicBool::new(false),
            replaced: AtomicBool::new(false),
            run_time: AtomicU64::new(0),
            last_processor: AtomicUsize::new(0),
            processors: AtomicU64::new(u64::MAX),
            space: Mutex::new(None),
            bases: Mutex::new((0, 0)),
            machine: Mutex::new(Some(Arc::new(machine))),
        })
    }

    /// The data that `new_context` was given, if it is a `T`.
    pub fn extension<T: 'static>(&self) -> Option<&T> {
        self.extension.downcast_ref()
    }

    /// The state.
    pub fn state(&self) -> State {
        match self.state.load(Ordering::Relaxed) {
            0 => State::New,
            1 => State::Runnable,
            2 => State::Blocked,
            3 => State::Stopped,
            _ => State::Dead,
        }
    }

    pub(super) fn set_state(&self, state: State) {
        self.state.store(state as u8, Ordering::Relaxed);
    }

    /// Whether `kill` was called. The context ends when it next leaves the kernel.
    pub fn is_killed(&self) -> bool {
        self.killed.load(Ordering::Relaxed)
    }

    pub(super) fn set_killed(&self) {
        self.killed.store(true, Ordering::Relaxed);
    }

    /// Whether the context is stopped by `stop`.
    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    pub(super) fn set_stopped(&self, stopped: bool) {
        self.stopped.store(stopped, Ordering::Relaxed);
    }

    pub(super) fn set_interrupted(&self, interrupted: bool) {
        self.interrupted.store(interrupted, Ordering::Relaxed);
    }

    pub(super) fn set_waiting(&self, waiting: bool) {
        self.waiting.store(waiting, Ordering::Relaxed);
    }

    pub(super) fn is_waiting(&self) -> bool {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Whether a wait must end. The call resets this, unless the context is to end.
    pub(super) fn take_interrupted(&self) -> bool {
        self.interrupted.swap(false, Ordering::Relaxed) | self.is_killed()
    }

    pub(super) fn is_replaced(&self) -> bool {
        self.replaced.load(Ordering::Relaxed)
    }

    pub(super) fn take_replaced(&self) -> bool {
        self.replaced.swap(false, Ordering::Relaxed)
    }

    /// The address space, `None` for a new context or after the end.
    pub fn space(&self) -> Option<Arc<AddrSpace>> {
        self.space.lock().clone()
    }

    /// Gives the context another address space, effective at once, even for the current context.
    /// The mappings of a space that no context uses any more stay until its last reference is
    /// dropped.
    pub fn set_space(&self, space: Option<Arc<AddrSpace>>) {
        if let Some(space) = &space {
            space.add_user();
        }
        // If another processor runs it, that one continues with the new space.
        super::bring_in(self);
        let old = core::mem::replace(&mut *self.space.lock(), space);
        if self.is_current() {
            self.activate_space();
        }
        // Only now: dropping the old space may tear its tables down.
        if let Some(old) = old {
            old.remove_user();
        }
    }

    /// Leaves the address space for good.
    pub(super) fn leave_space(&self) {
        self.set_space(None);
    }

    fn activate_space(&self) {
        paging::activate(self.space.lock().as_ref().map(|space| space.root()));
    }

    /// Loads the address space and the bases into this processor.
    pub(super) fn load(&self) {
        self.activate_space();
        let (fs, gs) = *self.bases.lock();
        cpu::set_user_bases(fs, gs);
    }

    /// The processors on which it may run, as bits: the online ones of its set, or all if none is
    /// online.
    pub(super) fn processors(&self) -> u64 {
        let online = smp::online();
        match self.processors.load(Ordering::Relaxed) & online {
            0 => online,
            set => set,
        }
    }

    pub(super) fn set_processors(&self, set: u64) {
        self.processors.store(set, Ordering::Relaxed);
    }

    pub(super) fn may_run_on(&self, processor: usize) -> bool {
        self.processors() >> processor & 1 != 0
    }

    /// The processor that runs it or ran it last.
    pub fn last_processor(&self) -> usize {
        self.last_processor.load(Ordering::Relaxed)
    }

    /// Sets where user mode starts or restarts: instruction pointer, stack pointer and rsi; all
    /// other registers become zero. For a new, a blocked or the current context. `EINVAL` unless
    /// `ip` is below 2^47.
    pub fn set_entry(&self, ip: usize, sp: usize, rsi: usize) -> Result<()> {
        if ip >= USER_END {
            return Err(Error::new(EINVAL));
        }
        self.with_machine(|machine| machine.set_entry(ip, sp, rsi));
        self.replaced.store(true, Ordering::Relaxed);
        Ok(())
    }

    fn with_machine<R>(&self, action: impl FnOnce(&MachineState) -> R) -> Option<R> {
        super::bring_in(self);
        self.machine.lock().as_deref().map(action)
    }

    /// The user registers as saved at the last entry to the kernel; zero after the end.
    pub fn registers(&self) -> IntRegisters {
        self.with_machine(MachineState::registers)
            .unwrap_or_default()
    }

    /// Replaces the user registers; selectors and privileged flags are kept sane. An instruction
    /// pointer outside user space ends the context with a protection fault when it next runs.
    pub fn set_registers(&self, registers: &IntRegisters) {
        self.with_machine(|machine| machine.set_registers(registers));
        self.replaced.store(true, Ordering::Relaxed);
    }

    /// FS and GS base.
    pub fn bases(&self) -> (usize, usize) {
        *self.bases.lock()
    }

    /// Sets FS and GS base; `EINVAL` when one is not below 2^47.
    pub fn set_bases(&self, fs: usize, gs: usize) -> Result<()> {
        if fs >= USER_END || gs >= USER_END {
            return Err(Error::new(EINVAL));
        }
        super::bring_in(self);
        *self.bases.lock() = (fs, gs);
        if self.is_current() {
            cpu::set_user_bases(fs, gs);
        }
        Ok(())
    }

    /// Allows the context to use all input and output ports (`Iopl`). Copies of its registers keep
    /// the permission.
    pub fn allow_ports(&self) {
        self.with_machine(MachineState::allow_ports);
    }

    fn is_current(&self) -> bool {
        super::with_current(|current| core::ptr::eq(current, self)).unwrap_or(false)
    }

    /// The floating point state in FXSAVE layout; zero after the end.
    pub fn float_state(&self) -> [u8; 512] {
        self.with_machine(MachineState::float_state)
            .unwrap_or([0; 512])
    }

    /// Replaces the floating point state (FXSAVE layout; reserved MXCSR bits are cleared).
    pub fn set_float_state(&self, state: &[u8; 512]) {
        self.with_machine(|machine| machine.set_float_state(state));
    }

    /// Nanoseconds that this context has run, as of the last [`super::charge_all`] or turn.
    pub fn run_time(&self) -> u64 {
        self.run_time.load(Ordering::Relaxed)
    }

    pub(super) fn add_run_time(&self, ns: u64) {
        self.run_time.fetch_add(ns, Ordering::Relaxed);
    }

    /// Adds the run time of another context of the same process, which ends.
    pub fn inherit_run_time(&self, ended: &Context) {
        self.add_run_time(ended.run_time());
    }

    /// Loads this context's address space and bases into this processor. The caller then switches
    /// to the machine state.
    pub(super) fn switch_in(&self) -> Arc<MachineState> {
        self.load();
        self.last_processor.store(cpu::index(), Ordering::Relaxed);
        let machine = self.machine.lock().clone();
        machine.expect("a context that runs has a stack")
    }

    /// Gives up the machine state of a context that ends. It is freed once it no longer runs.
    pub(super) fn leave_machine(&self) {
        let machine = self.machine.lock().take();
        drop(machine);
    }
}
