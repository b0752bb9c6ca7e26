//! One context: its kernel stack, its registers, its state.

use alloc::sync::Arc;
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

use ::syscall::IntRegisters;
use ::syscall::error::{EINVAL, ENOMEM, Error, Result};
use spin::Mutex;

use crate::arch::entry::{Frame, context_start};
use crate::arch::fpu::FpuState;
use crate::arch::{cpu, user_flags};
use crate::mm::space::AddrSpace;
use crate::mm::stack::KernelStack;
use crate::mm::{USER_END, paging};
use crate::proc::ProcData;

/// Shared reference to a context.
pub type ContextRef = Arc<Context>;

/// A thread of execution.
pub struct Context {
    /// Number for logs and keys; never reused.
    pub id: u64,
    /// What the upper half (process model) keeps with a context.
    pub ext: Mutex<ProcData>,
    state: AtomicU8,
    killed: AtomicBool,
    stopped: AtomicBool,
    interrupted: AtomicBool,
    /// User registers were set while the context was in the kernel.
    replaced: AtomicBool,
    run_time: AtomicU64,
    space: Mutex<Option<Arc<AddrSpace>>>,
    /// FS and GS base of user mode.
    bases: Mutex<(usize, usize)>,
    machine: Mutex<Option<Machine>>,
    /// Stack pointer while switched out.
    saved_stack: UnsafeCell<usize>,
}

// SAFETY: `saved_stack` is touched only by the scheduler, on the processor that switches.
unsafe impl Sync for Context {}

/// What a context has as long as it can run.
struct Machine {
    stack: KernelStack,
    fpu: FpuState,
}

/// What a context is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
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

static NEXT_ID: AtomicU64 = AtomicU64::new(1);

/// The flag bits that allow port access in user mode.
const IOPL: u64 = 3 << 12;

/// What `switch_stacks` pops on the first switch to a context: six registers, return address.
const SWITCH_WORDS: usize = 7;

impl Machine {
    /// The registers of user mode, at the top of the stack. Valid whenever the context is not in
    /// user mode itself, which no caller can observe on one processor.
    fn frame(&self) -> *mut Frame {
        (self.stack.top() - size_of::<Frame>()) as *mut Frame
    }
}

impl Context {
    /// See `sched::new_context`.
    pub(super) fn new() -> Result<Context> {
        let no_memory = Error::new(ENOMEM);
        let stack = KernelStack::new().ok_or(no_memory)?;
        let machine = Machine {
            stack,
            fpu: FpuState::new().ok_or(no_memory)?,
        };
        let frame = machine.frame();
        // SAFETY: the top of a fresh stack, which is ours.
        let saved_stack = unsafe {
            frame.write(entry_frame(0, 0, 0));
            let words = frame.cast::<usize>().sub(SWITCH_WORDS);
            for i in 0..SWITCH_WORDS - 1 {
                words.add(i).write(0);
            }
            words
                .add(SWITCH_WORDS - 1)
                .write(context_start as *const () as usize);
            words as usize
        };
        Ok(Context {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            ext: Mutex::new(ProcData::default()),
            state: AtomicU8::new(State::New as u8),
            killed: AtomicBool::new(false),
            stopped: AtomicBool::new(false),
            interrupted: AtomicBool::new(false),
            replaced: AtomicBool::new(false),
            run_time: AtomicU64::new(0),
            space: Mutex::new(None),
            bases: Mutex::new((0, 0)),
            machine: Mutex::new(Some(machine)),
            saved_stack: UnsafeCell::new(saved_stack),
        })
    }

    /// What the context is doing.
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

    /// Whether `kill` was called (it ends when it next leaves the kernel).
    pub fn is_killed(&self) -> bool {
        self.killed.load(Ordering::Relaxed)
    }

    pub(super) fn set_killed(&self) {
        self.killed.store(true, Ordering::Relaxed);
    }

    /// Whether `stop` is in force.
    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    pub(super) fn set_stopped(&self, stopped: bool) {
        self.stopped.store(stopped, Ordering::Relaxed);
    }

    pub(super) fn set_interrupted(&self, interrupted: bool) {
        self.interrupted.store(interrupted, Ordering::Relaxed);
    }

    /// Whether a wait must end; asking resets it, unless the context is to end.
    pub(super) fn take_interrupted(&self) -> bool {
        self.interrupted.swap(false, Ordering::Relaxed) | self.is_killed()
    }

    pub(super) fn take_replaced(&self) -> bool {
        self.replaced.swap(false, Ordering::Relaxed)
    }

    /// The address space, `None` for a new context or after the end.
    pub fn space(&self) -> Option<Arc<AddrSpace>> {
        self.space.lock().clone()
    }

    /// Gives the context another address space; effective at once, also for the current one.
    /// The mappings of a space that no context uses any more stay until its last reference goes.
    pub fn set_space(&self, space: Option<Arc<AddrSpace>>) {
        if let Some(space) = &space {
            space.add_user();
        }
        let old = core::mem::replace(&mut *self.space.lock(), space);
        if super::try_current().is_some_and(|c| core::ptr::eq(Arc::as_ptr(&c), self)) {
            self.activate_space();
        }
        // Only now: dropping may tear the old tables down.
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

    /// Sets where user mode (re)starts: instruction pointer, stack pointer and rsi; all other
    /// registers become zero. For a new, a blocked or the current context. `EINVAL` unless `ip`
    /// is below 2^47.
    pub fn set_entry(&self, ip: usize, sp: usize, rsi: usize) -> Result<()> {
        if ip >= USER_END {
            return Err(Error::new(EINVAL));
        }
        self.with_frame(|frame| *frame = entry_frame(ip, sp, rsi));
        self.replaced.store(true, Ordering::Relaxed);
        Ok(())
    }

    fn with_frame<R>(&self, action: impl FnOnce(&mut Frame) -> R) -> Option<R> {
        let machine = self.machine.lock();
        // SAFETY: the stack lives as long as `machine`; the context is in the kernel (or new), and
        // its entry code keeps no reference to the frame while the scheduler or a handle runs.
        machine
            .as_ref()
            .map(|machine| action(unsafe { &mut *machine.frame() }))
    }

    /// The user registers as saved at the last entry to the kernel; zero after the end.
    pub fn registers(&self) -> IntRegisters {
        let frame = self.with_frame(|frame| *frame).unwrap_or_default();
        IntRegisters {
            r15: frame.r15 as usize,
            r14: frame.r14 as usize,
            r13: frame.r13 as usize,
            r12: frame.r12 as usize,
            rbp: frame.rbp as usize,
            rbx: frame.rbx as usize,
            r11: frame.r11 as usize,
            r10: frame.r10 as usize,
            r9: frame.r9 as usize,
            r8: frame.r8 as usize,
            rax: frame.rax as usize,
            rcx: frame.rcx as usize,
            rdx: frame.rdx as usize,
            rsi: frame.rsi as usize,
            rdi: frame.rdi as usize,
            rip: frame.rip as usize,
            cs: frame.cs as usize,
            rflags: frame.rflags as usize,
            rsp: frame.rsp as usize,
            ss: frame.ss as usize,
        }
    }

    /// Replaces the user registers; selectors and privileged flags are kept sane. An instruction
    /// pointer outside user space ends the context with a protection fault when it next runs.
    pub fn set_registers(&self, registers: &IntRegisters) {
        self.with_frame(|frame| {
            *frame = Frame {
                r15: registers.r15 as u64,
                r14: registers.r14 as u64,
                r13: registers.r13 as u64,
                r12: registers.r12 as u64,
                rbp: registers.rbp as u64,
                rbx: registers.rbx as u64,
                r11: registers.r11 as u64,
                r10: registers.r10 as u64,
                r9: registers.r9 as u64,
                r8: registers.r8 as u64,
                rax: registers.rax as u64,
                rcx: registers.rcx as u64,
                rdx: registers.rdx as u64,
                rsi: registers.rsi as u64,
                rdi: registers.rdi as u64,
                vector: frame.vector,
                error: 0,
                rip: registers.rip as u64,
                cs: cpu::USER_CS,
                rflags: user_flags(registers.rflags as u64) | frame.rflags & IOPL,
                rsp: registers.rsp as u64,
                ss: cpu::USER_SS,
            };
        });
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
        *self.bases.lock() = (fs, gs);
        if self.is_current() {
            cpu::set_user_bases(fs, gs);
        }
        Ok(())
    }

    /// Lets the context use all input and output ports (`Iopl`). Copies of its registers keep the
    /// permission.
    pub fn allow_ports(&self) {
        self.with_frame(|frame| {
            frame.rflags |= IOPL;
            // So that SYSRET still serves as the way back.
            frame.r11 = frame.rflags;
        });
    }

    fn is_current(&self) -> bool {
        super::try_current().is_some_and(|c| core::ptr::eq(Arc::as_ptr(&c), self))
    }

    /// The floating point state in FXSAVE layout.
    pub fn float_state(&self) -> [u8; 512] {
        let current = self.is_current();
        match self.machine.lock().as_mut() {
            Some(machine) => {
                if current {
                    machine.fpu.save();
                }
                machine.fpu.get()
            }
            None => [0; 512],
        }
    }

    /// Replaces the floating point state (FXSAVE layout; reserved MXCSR bits are cleared).
    pub fn set_float_state(&self, state: &[u8; 512]) {
        let current = self.is_current();
        if let Some(machine) = self.machine.lock().as_mut() {
            if current {
                machine.fpu.save();
            }
            machine.fpu.set(state);
            if current {
                machine.fpu.load();
            }
        }
    }

    /// Nanoseconds this context has run (up to its last turn).
    pub fn run_time(&self) -> u64 {
        self.run_time.load(Ordering::Relaxed)
    }

    /// Saves what the kernel does not use itself.
    pub(super) fn switch_out(&self, ran_ns: u64) {
        self.run_time.fetch_add(ran_ns, Ordering::Relaxed);
        if self.state() != State::Dead
            && let Some(machine) = self.machine.lock().as_mut()
        {
            machine.fpu.save();
        }
    }

    /// Loads everything but the kernel stack pointer.
    pub(super) fn switch_in(&self) {
        self.activate_space();
        let (fs, gs) = *self.bases.lock();
        cpu::set_user_bases(fs, gs);
        let machine = self.machine.lock();
        let machine = machine.as_ref().expect("a context that runs has a stack");
        machine.fpu.load();
        cpu::set_kernel_stack(machine.stack.top());
    }

    pub(super) fn stack_slot(&self) -> *mut usize {
        self.saved_stack.get()
    }

    pub(super) fn saved_stack(&self) -> usize {
        // SAFETY: see `Sync`.
        unsafe { *self.saved_stack.get() }
    }

    /// Frees stack and floating point area of a context that runs no more.
    pub(super) fn free_machine_state(&self) {
        let machine = self.machine.lock().take();
        drop(machine);
    }
}

/// The frame of a context that begins: all zero but these; interrupts on.
fn entry_frame(ip: usize, sp: usize, rsi: usize) -> Frame {
    let rflags = user_flags(0);
    Frame {
        // As after SYSRET.
        rcx: ip as u64,
        r11: rflags,
        rip: ip as u64,
        rsp: sp as u64,
        rsi: rsi as u64,
        rflags,
        cs: cpu::USER_CS,
        ss: cpu::USER_SS,
        ..Frame::default()
    }
}
