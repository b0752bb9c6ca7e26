//! The machine state of a context (kernel stack, registers, floating point state), and the switch
//! from one context to the next.

use alloc::sync::Arc;
use core::arch::global_asm;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicUsize, Ordering};

use ::syscall::IntRegisters;
use spin::Mutex;

use super::cpu;
use super::fpu::{self, FpuState};
use super::frame::{Frame, user_flags};
use crate::mm::stack::KernelStack;

/// The flag bits that allow port access in user mode.
const IOPL: u64 = 3 << 12;

/// Words that `switch_stacks` pops at the first switch to a context: six registers and a return
/// address.
const SWITCH_WORDS: usize = 7;

/// The machine state of a context that can run.
#[derive(Debug)]
pub struct MachineState {
    stack: KernelStack,
    fpu: Mutex<FpuState>,
    /// Stack pointer while switched out, 0 while it runs.
    saved_stack: AtomicUsize,
}

/// The contexts whose state a processor has. The first two references keep stacks mapped that are
/// in use.
struct Processor {
    /// `None` in the idle loop.
    running: Option<Arc<MachineState>>,
    /// The context whose stack was left, until the next context runs on its own stack.
    left: Option<Arc<MachineState>>,
    /// The context whose floating point state is in the registers. The idle loop of a single
    /// processor leaves it there, because often the same program continues after it. With several
    /// processors, the program may continue elsewhere.
    floating: Option<Arc<MachineState>>,
}

static PROCESSORS: [Mutex<Processor>; cpu::MAX] = [const {
    Mutex::new(Processor {
        running: None,
        left: None,
        floating: None,
    })
}; cpu::MAX];
/// The address of the code with which a new stack begins; see [`init`].
static FIRST_STEP: AtomicUsize = AtomicUsize::new(0);
/// `saved_stack` of the idle loops.
static IDLE_STACKS: [AtomicUsize; cpu::MAX] = [const { AtomicUsize::new(0) }; cpu::MAX];

unsafe extern "C" {
    /// Saves the callee-saved registers, stores the stack pointer at `*save` and continues on
    /// `next`.
    ///
    /// # Safety
    /// `next` must have been saved by this function or prepared like it, and its stack be mapped.
    fn switch_stacks(save: *mut usize, next: usize);
}

global_asm!(
    r#"
    .text
    .global switch_stacks
switch_stacks:
    push rbx
    push rbp
    push r12
    push r13
    push r14
    push r15
    mov [rdi], rsp
    mov rsp, rsi
    pop r15
    pop r14
    pop r13
    pop r12
    pop rbp
    pop rbx
    ret
    "#
);

/// Sets the address of the code with which a new stack begins, before the first context is made.
/// `rsp` is the address of the context's frame there.
pub(super) fn init(first_step: usize) {
    FIRST_STEP.store(first_step, Ordering::Relaxed);
}

fn processor() -> &'static Mutex<Processor> {
    &PROCESSORS[cpu::index()]
}

/// Continues with `next`, or with the idle loop. Returns when another switch comes back.
///
/// Panics when `next` already runs.
pub fn switch_to(next: Option<Arc<MachineState>>) {
    let (save, load, unloaded) = {
        let idle_stack = &IDLE_STACKS[cpu::index()];
        let mut processor = processor().lock();
        let previous = processor.running.take();
        let save = match &previous {
            Some(previous) => previous.saved_stack.as_ptr(),
            None => idle_stack.as_ptr(),
        };
        let mut unloaded = None;
        let load = match &next {
            Some(next) => {
                let floating = processor.floating.as_ref();
                if !floating.is_some_and(|floating| Arc::ptr_eq(floating, next)) {
                    unloaded = processor.floating.replace(next.clone());
                    if let Some(unloaded) = &unloaded {
                        unloaded.fpu.lock().save();
                    }
                    next.fpu.lock().load();
                }
                cpu::set_kernel_stack(next.entry_stack());
                &next.saved_stack
            }
            None => {
                if cpu::several() {
                    unloaded = processor.unload();
                }
                idle_stack
            }
        }
        .swap(0, Ordering::Relaxed);
        assert_ne!(load, 0, "what is switched to does not run yet");
        processor.left = previous;
        processor.running = next;
        (save, load, unloaded)
    };
    // After the lock: it may be the last reference, though not to this stack, which was just left.
    drop(unloaded);
    // SAFETY: `load` was saved here by an earlier switch or prepared by `MachineState::new`, and
    // is used once, as it was replaced by 0. `save` belongs to the stack this runs on; nobody can
    // switch to it before the stack pointer is there, as this processor has the lock. Both stacks
    // stay mapped: `PROCESSORS` refers to them, those of idle loops are never freed.
    unsafe { switch_stacks(save, load) };
    // Perhaps on another processor than before.
    forget_left();
}

impl Processor {
    /// Saves the floating point state in the registers. Returns its context, if there is one; the
    /// reference must be dropped without the lock.
    fn unload(&mut self) -> Option<Arc<MachineState>> {
        let floating = self.floating.take();
        if let Some(floating) = &floating {
            floating.fpu.lock().save();
        }
        floating
    }
}

/// Saves the floating point state of the context that runs here, which may then be read and
/// changed until [`load_float`].
pub(super) fn save_float() {
    let unloaded = processor().lock().unload();
    drop(unloaded);
}

/// Undoes [`save_float`].
pub(super) fn load_float() {
    let mut processor = processor().lock();
    if processor.floating.is_none()
        && let Some(running) = processor.running.clone()
    {
        running.fpu.lock().load();
        processor.floating = Some(running);
    }
}

/// The first thing on the new stack: the stack just left is no longer in use.
pub(super) fn forget_left() {
    let left = processor().lock().left.take();
    // After the lock: it may be the last reference.
    drop(left);
}

impl MachineState {
    /// A state ready to enter user mode with all registers zero; `None` without memory.
    pub fn new() -> Option<Self> {
        let stack = KernelStack::new()?;
        let area = core::ptr::with_exposed_provenance_mut(float_state_of(&stack));
        let state = MachineState {
            // SAFETY: the stack is ours and used below this only (`entry_stack`); both go
            // together.
            fpu: Mutex::new(unsafe { FpuState::at(NonNull::new(area)?) }),
            stack,
            saved_stack: AtomicUsize::new(0),
        };
        state.write_frame(entry_frame(0, 0, 0));
        // SAFETY: below the frame on a fresh stack, which is ours.
        let words = unsafe {
            let words = state.frame_pointer().cast::<usize>().sub(SWITCH_WORDS);
            words.write_bytes(0, SWITCH_WORDS - 1);
            words
                .add(SWITCH_WORDS - 1)
                .write(FIRST_STEP.load(Ordering::Relaxed));
            words
        };
        state.saved_stack.store(words as usize, Ordering::Relaxed);
        Some(state)
    }

    /// Whether this processor's registers hold its floating point state.
    fn is_floating(&self) -> bool {
        let processor = processor().lock();
        processor
            .floating
            .as_ref()
            .is_some_and(|floating| core::ptr::eq(Arc::as_ptr(floating), self))
    }

    /// Where the kernel is entered: below the floating point state, which lies at the top because
    /// a switch touches that page anyway.
    fn entry_stack(&self) -> usize {
        float_state_of(&self.stack)
    }

    /// The registers of user mode, at the place where the kernel is entered. Valid whenever the
    /// context is not in user mode: the caller has the lock, and has displaced the processor if
    /// the context is not its own (`Context::with_machine`).
    fn frame_pointer(&self) -> *mut Frame {
        (self.entry_stack() - size_of::<Frame>()) as *mut Frame
    }

    fn read_frame(&self) -> Frame {
        // SAFETY: inside our stack, initialised by `new`. The context is not in user mode (see
        // `frame_pointer`), and the code that handles its frame has no reference to it while the
        // scheduler or a handle runs, nor while it waits for the lock.
        unsafe { self.frame_pointer().read() }
    }

    fn write_frame(&self, frame: Frame) {
        // SAFETY: as above. Callers see to selectors and flags that suit user mode.
        unsafe { self.frame_pointer().write(frame) };
    }

    /// Sets where user mode starts or restarts: instruction pointer, stack pointer and rsi; all
    /// other registers become zero.
    pub fn set_entry(&self, ip: usize, sp: usize, rsi: usize) {
        self.write_frame(entry_frame(ip, sp, rsi));
    }

    /// The user registers as saved at the last entry to the kernel.
    pub fn registers(&self) -> IntRegisters {
        let frame = self.read_frame();
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
        let old = self.read_frame();
        self.write_frame(Frame {
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
            vector: old.vector,
            error: 0,
            rip: registers.rip as u64,
            cs: cpu::USER_CS,
            rflags: user_flags(registers.rflags as u64) | old.rflags & IOPL,
            rsp: registers.rsp as u64,
            ss: cpu::USER_SS,
        });
    }

    /// Allows user mode to use all input and output ports. Copies of the registers keep the
    /// permission.
    pub fn allow_ports(&self) {
        let mut frame = self.read_frame();
        frame.rflags |= IOPL;
        // So that SYSRET can still be the way back.
        frame.r11 = frame.rflags;
        self.write_frame(frame);
    }

    /// The floating point state in FXSAVE layout. Not to be called while another processor has it
    /// in its registers.
    pub fn float_state(&self) -> [u8; 512] {
        let mut fpu = self.fpu.lock();
        if self.is_floating() {
            fpu.save();
        }
        fpu.get()
    }

    /// Replaces the floating point state (FXSAVE layout; reserved MXCSR bits are cleared). Not to
    /// be called while another processor has it in its registers.
    pub fn set_float_state(&self, state: &[u8; 512]) {
        let mut fpu = self.fpu.lock();
        if self.is_floating() {
            fpu.save();
        }
        fpu.set(state);
        if self.is_floating() {
            fpu.load();
        }
    }
}

/// The address of the floating point state of a stack's context.
fn float_state_of(stack: &KernelStack) -> usize {
    (stack.top() - fpu::size()) & !(fpu::ALIGN - 1)
}

/// The frame of a context that starts: everything but these is zero; interrupts are on.
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
