//! Threads, after `std::thread`: further contexts of the process with the same memory and
//! descriptors.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, Ordering};

use libredox::Fd;
use syscall::PAGE_SIZE;
use syscall::error::{EINVAL, Error, Result};
use syscall::flag::{ContextStatus, ContextVerb};

use crate::sync::{Mutex, Signal};
use crate::{fd, heap, spawn, state, sys};

/// Default stack of a thread in bytes. The kernel allocates pages on first access. Below and above
/// the stack lies a page without access.
const STACK_SIZE: usize = 256 * 1024;

core::arch::global_asm!(
    ".section .text.runtime_thread_start,\"ax\",@progbits",
    ".global runtime_thread_start",
    ".type runtime_thread_start,@function",
    // The stack holds the pointer to the start record and the floating-point environment;
    // registers are undefined.
    "runtime_thread_start:",
    "xor ebp, ebp",
    "pop rdi",
    "fninit",
    "ldmxcsr dword ptr [rsp]",
    "fldcw word ptr [rsp + 4]",
    "and rsp, -16",
    "call {start}",
    "ud2",
    ".size runtime_thread_start, . - runtime_thread_start",
    ".text",
    start = sym thread_start,
);

unsafe extern "C" {
    fn runtime_thread_start() -> !;
}

/// The data on a new thread's stack.
struct Start {
    main: Box<dyn FnOnce() + Send>,
    /// Set when the thread's function has returned, for the thread that joins it.
    done: Arc<Signal>,
    /// The thread's own handle.
    thread: usize,
    stack: usize,
    stack_size: usize,
}

/// First Rust code of a thread.
unsafe extern "C" fn thread_start(start: *mut Start) -> ! {
    // SAFETY: `spawn` made the record with `Box::into_raw` and gave it to this thread alone.
    let start = unsafe { Box::from_raw(start) };
    let Start {
        main,
        done,
        thread,
        stack,
        stack_size,
    } = *start;
    main();
    // One handle that both ends this thread and frees its stack; the thread handle itself is not
    // needed for that.
    let status = fd::dup_upper(thread, b"status");
    let _ = fd::close(thread);
    done.set();
    drop(done);
    finish(status, stack, stack_size)
}

/// Ends the calling thread. The descriptor used for that stays in the table, as this thread can no
/// longer close it. A thread that ends later closes it, once this one has ended.
fn finish(status: Result<usize>, stack: usize, stack_size: usize) -> ! {
    if let Ok(status) = status {
        let mut left = LEFT.lock();
        let (over, alive) = left
            .drain(..)
            .partition::<Vec<_>, _>(|&other| is_over(other));
        *left = alive;
        left.push(status);
        drop(left);
        for other in over {
            let _ = fd::close(other);
        }
        let (base, whole) = heap::guarded(stack, stack_size);
        let words = [usize::MAX, base, whole];
        let _ = fd::write(status, words.map(usize::to_ne_bytes).as_flattened());
    }
    // Not reached unless the kernel refused.
    loop {
        crate::time::sleep(core::time::Duration::from_secs(3600));
    }
}

/// Status handles of threads that have ended or are about to, since the last check.
static LEFT: Mutex<Vec<usize>> = Mutex::new(Vec::new());

/// Locks the list of ended threads as long as the result lives.
pub(crate) fn hold() -> impl Sized {
    LEFT.lock()
}

/// Whether the thread behind a status handle has ended.
fn is_over(status: usize) -> bool {
    let mut word = [0; size_of::<usize>()];
    let read = fd::read(status, &mut word);
    read.is_ok() && usize::from_ne_bytes(word) == ContextStatus::Dead as usize
}

/// A started thread. Dropping this does not stop the thread.
pub struct JoinHandle<T> {
    thread: usize,
    done: Arc<Signal>,
    result: Arc<Mutex<Option<T>>>,
}

impl<T> JoinHandle<T> {
    /// Waits until the thread's function has returned, and returns its result.
    pub fn join(self) -> Result<T> {
        self.done.wait();
        let result = self.result.lock().take();
        result.ok_or(Error::new(EINVAL))
    }

    /// What is set when the thread's function has returned.
    pub fn done(&self) -> Arc<Signal> {
        Arc::clone(&self.done)
    }

    /// The descriptor of the thread. The thread closes it when its function has returned.
    pub fn thread_fd(&self) -> usize {
        self.thread
    }

    /// Whether the thread's function has returned.
    pub fn is_finished(&self) -> bool {
        self.done.is_set()
    }
}

/// Whether the process has never had a second thread.
static IS_ALONE: AtomicBool = AtomicBool::new(true);

/// Whether the calling thread is the only one that the process has ever had. Data that only
/// threads of one process share needs no locked instructions then. Stays true until the caller
/// starts a thread.
#[inline]
pub fn is_alone() -> bool {
    IS_ALONE.load(Ordering::Relaxed)
}

/// Starts a thread that runs `main`.
pub fn spawn<T: Send + 'static>(
    main: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>> {
    Builder::new().spawn(main)
}

/// Options for starting a thread.
pub struct Builder {
    stack_size: usize,
    fs_base: usize,
}

impl Default for Builder {
    fn default() -> Self {
        Self::new()
    }
}

impl Builder {
    /// A stack of 256 KiB, and no thread-local storage.
    pub fn new() -> Self {
        Builder {
            stack_size: STACK_SIZE,
            fs_base: 0,
        }
    }

    /// Sets the stack's size in bytes, rounded up to whole pages, at least one.
    pub fn stack_size(mut self, bytes: usize) -> Self {
        self.stack_size = bytes.clamp(PAGE_SIZE, usize::MAX / 2);
        self.stack_size = self.stack_size.next_multiple_of(PAGE_SIZE);
        self
    }

    /// Sets the thread's FS base, through which code with thread-local storage finds its block.
    /// This crate does not use it.
    pub fn fs_base(mut self, address: usize) -> Self {
        self.fs_base = address;
        self
    }

    /// Starts the thread.
    pub fn spawn<T: Send + 'static>(
        self,
        main: impl FnOnce() -> T + Send + 'static,
    ) -> Result<JoinHandle<T>> {
        let stack_size = self.stack_size;
        // What needs the most memory comes first.
        let stack = heap::map_guarded(stack_size)?;
        let started = self.start_at(stack, main);
        if started.is_err() {
            let (base, whole) = heap::guarded(stack, stack_size);
            // SAFETY: the thread does not run, so its stack is still ours.
            let _ = unsafe { fd::munmap(base, whole) };
        }
        started
    }

    fn start_at<T: Send + 'static>(
        self,
        stack: usize,
        main: impl FnOnce() -> T + Send + 'static,
    ) -> Result<JoinHandle<T>> {
        let stack_size = self.stack_size;
        let thread = NotStarted::new()?;
        if self.fs_base != 0 {
            set_fs_base(thread.raw(), self.fs_base)?;
        }
        let result = Arc::new(Mutex::new(None));
        let done = Arc::new(Signal::new());
        let slot = Arc::clone(&result);
        let start = Box::new(Start {
            main: Box::new(move || *slot.lock() = Some(main())),
            done: Arc::clone(&done),
            thread: thread.raw(),
            stack,
            stack_size,
        });
        let start = Box::into_raw(start);
        let pointer = stack + stack_size - PAGE_SIZE / 16;
        // SAFETY: the address lies in the stack that was mapped just now, 256 bytes below its end.
        unsafe {
            (pointer as *mut usize).write(start as usize);
            // The new thread has the floating-point environment of this one.
            core::arch::asm!(
                "stmxcsr dword ptr [{place}]",
                "fnstcw word ptr [{place} + 4]",
                place = in(reg) pointer + size_of::<usize>(),
                options(nostack, preserves_flags),
            );
        }
        // Set before another thread exists, which could see the old value.
        IS_ALONE.store(false, Ordering::Relaxed);
        match run(thread.raw(), pointer) {
            Ok(()) => Ok(JoinHandle {
                // The thread closes its own handle.
                thread: thread.into_raw(),
                done,
                result,
            }),
            Err(error) => {
                // SAFETY: the thread does not run, so the record is still ours.
                drop(unsafe { Box::from_raw(start) });
                Err(error)
            }
        }
    }
}

/// A thread that does not run yet. If it is dropped it is ended: it would count as one of the
/// process until that ends.
struct NotStarted(usize);

impl NotStarted {
    fn new() -> Result<Self> {
        let own = fd::check(state::proc_fd())?;
        Ok(Self(fd::dup_upper(own, b"new-thread")?))
    }

    fn raw(&self) -> usize {
        self.0
    }

    /// The handle of the thread, which runs now.
    fn into_raw(self) -> usize {
        let thread = self.0;
        core::mem::forget(self);
        thread
    }
}

impl Drop for NotStarted {
    fn drop(&mut self) {
        // Without a descriptor for this it stays.
        let _ = control(self.0, ContextVerb::ForceKill);
        let _ = fd::close(self.0);
    }
}

/// Sets the FS base of the context behind `thread`, which may be the caller's own.
fn set_fs_base(thread: usize, address: usize) -> Result<()> {
    let registers = Fd::new(fd::dup_upper(thread, b"regs/env")?);
    // `EnvRegisters`: FS base, GS base.
    let words = [address, 0];
    fd::write(
        registers.raw(),
        words.map(usize::to_ne_bytes).as_flattened(),
    )?;
    Ok(())
}

/// Sets the FS base of the process's first thread, for a library that gives programs thread-local
/// storage; see [`Builder::fs_base`].
pub fn set_main_fs_base(address: usize) -> Result<()> {
    set_fs_base(fd::check(state::thread_fd())?, address)
}

/// Gives the context behind `thread` this process's memory and descriptors, and starts it.
fn run(thread: usize, pointer: usize) -> Result<()> {
    let space = Fd::new(fd::dup_upper(state::thread_fd(), b"addrspace")?);
    let files = Fd::new(fd::dup_upper(state::thread_fd(), b"filetable")?);
    let choosing = spawn::hold_choices();
    let selection = Fd::new(fd::dup_upper(thread, b"current-filetable")?);
    fd::write(selection.raw(), &files.raw().to_ne_bytes())?;
    selection.close()?;
    let selection = Fd::new(fd::dup_upper(thread, b"current-addrspace")?);
    let entry = runtime_thread_start as *const () as usize;
    let words = [space.raw(), pointer, entry];
    fd::write(
        selection.raw(),
        words.map(usize::to_ne_bytes).as_flattened(),
    )?;
    selection.close()?;
    drop(choosing);
    spawn::start(thread)
}

/// Ends the wait of the thread behind a descriptor (`EINTR`), if it sleeps.
///
/// # Errors
/// `EBADF`, `EMFILE`, `ENOMEM`.
pub fn interrupt(thread: usize) -> Result<()> {
    control(thread, ContextVerb::Interrupt)
}

/// Has the kernel do something with the thread behind a descriptor.
fn control(thread: usize, verb: ContextVerb) -> Result<()> {
    let status = Fd::new(fd::dup_upper(thread, b"status")?);
    fd::write(status.raw(), &(verb as usize).to_ne_bytes())?;
    Ok(())
}

/// Lets other threads and processes run.
pub fn yield_now() {
    sys::yield_now();
}

pub use crate::time::sleep;
