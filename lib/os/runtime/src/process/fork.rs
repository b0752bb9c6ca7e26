//! Doubling this process: a child with copies of its memory and descriptors and one thread, which
//! goes on where the caller of [`fork`] does.
//!
//! The child has what the process had, but for mappings of schemes and memory that the kernel does
//! not copy, and for the other threads. What those were doing stays undone there for ever, so a
//! lock that one of them held stays taken: the heap's is held by `fork` itself, other libraries
//! must see to theirs.

use libredox::Fd;
use syscall::error::Result;

use super::meta;
use crate::state;
use crate::{fd, heap, spawn};

core::arch::global_asm!(
    ".section .text.runtime_fork,\"ax\",@progbits",
    ".global runtime_fork",
    ".type runtime_fork,@function",
    // What a function keeps for its caller goes onto the stack, of which the child has a copy.
    "runtime_fork:",
    "push rbx",
    "push rbp",
    "push r12",
    "push r13",
    "push r14",
    "push r15",
    "sub rsp, 8",
    "mov rsi, rsp",
    "call {double}",
    "2:",
    "add rsp, 8",
    "pop r15",
    "pop r14",
    "pop r13",
    "pop r12",
    "pop rbp",
    "pop rbx",
    "ret",
    // The child begins here, with that stack and no other register.
    ".global runtime_fork_child",
    ".type runtime_fork_child,@function",
    "runtime_fork_child:",
    "sub rsp, 16",
    "fninit",
    "mov dword ptr [rsp], 0x1F80",
    "ldmxcsr dword ptr [rsp]",
    "mov dword ptr [rsp], 0x37F",
    "fldcw word ptr [rsp]",
    "add rsp, 16",
    "mov eax, {in_child}",
    "jmp 2b",
    ".size runtime_fork, . - runtime_fork",
    ".text",
    double = sym double,
    in_child = const IN_CHILD,
);

unsafe extern "C" {
    fn runtime_fork(record: *mut u8) -> usize;
    fn runtime_fork_child() -> !;
}

/// What `runtime_fork` returns in the child and in the parent; the reason of a failure is in the
/// record.
const IN_CHILD: usize = 1;
const IN_PARENT: usize = 0;

/// What the two ends of a fork know of each other.
struct Record {
    /// The calling thread.
    thread: usize,
    /// Descriptors that the child finds under the same numbers.
    child: Descriptors,
    result: Result<u32>,
}

/// The child's own handles; `former` is one of the parent's table.
#[derive(Clone, Copy, Default)]
struct Descriptors {
    process: usize,
    thread: usize,
    filetable: usize,
    former: usize,
}

/// What came of a fork.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fork {
    /// The caller is the parent of the process with this id.
    Parent(u32),
    /// The caller is the child; its thread has this descriptor.
    Child(usize),
}

/// Doubles the process. `thread` is the descriptor of the calling thread.
///
/// # Errors
/// `EAGAIN` too many processes, `ENOMEM`, `ESRCH` below the process manager, `EMFILE`.
///
/// # Safety
/// In the child nothing may be used that was mapped by a scheme, and nothing that another thread
/// may have been changing.
pub unsafe fn fork(thread: usize) -> Result<Fork> {
    let mut record = Record {
        thread,
        child: Descriptors::default(),
        result: Err(syscall::Error::new(syscall::ENOSYS)),
    };
    // Held in both processes, and given back in both.
    let heap = heap::hold();
    // SAFETY: the record lives across the call; what follows runs once in each process, with a
    // stack of its own.
    let side = unsafe { runtime_fork((&raw mut record).cast()) };
    drop(heap);
    if side == IN_CHILD {
        become_child(&record);
        return Ok(Fork::Child(record.child.thread));
    }
    record.result.map(Fork::Parent)
}

/// First Rust code behind `runtime_fork` in the parent. It takes no memory: the heap is held.
unsafe extern "C" fn double(record: *mut u8, stack: usize) -> usize {
    // SAFETY: `fork`'s record, which nobody else knows.
    let record = unsafe { &mut *record.cast::<Record>() };
    record.result = make_child(record, stack);
    IN_PARENT
}

fn make_child(record: &mut Record, stack: usize) -> Result<u32> {
    let own = fd::check(state::proc_fd())?;
    let process = Fd::new(fd::dup_upper(own, b"fork")?);
    let pid = meta(process.raw())?.pid;
    let started = fill(record, &process, stack);
    if started.is_err() {
        // The half-made process must not stay behind; that it is gone is no reason to stop.
        let _ = super::kill(pid, 9).and_then(|()| super::wait_pid(pid, false));
    }
    started.map(|()| pid)
}

/// Gives the child its descriptors and memory, and lets it run. The copy of the table is made
/// between the handles that the child is to have and those that it is not.
fn fill(record: &mut Record, process: &Fd, stack: usize) -> Result<()> {
    let thread = Fd::new(fd::dup_upper(process.raw(), b"thread-0")?);
    let former = Fd::new(fd::dup_upper(record.thread, b"filetable-binary")?);
    let filetable = Fd::new(fd::dup_upper(former.raw(), b"copy")?);

    let selection = Fd::new(fd::dup_upper(thread.raw(), b"current-filetable")?);
    fd::write(selection.raw(), &filetable.raw().to_ne_bytes())?;
    selection.close()?;
    let number = filetable.raw();
    fd::send_fd(number, number, true, &[number as u64])?;
    record.child = Descriptors {
        process: process.raw(),
        thread: thread.raw(),
        filetable: number,
        former: former.raw(),
    };

    // Thread-local storage is at the same address.
    let mut bases = [0; 2 * size_of::<usize>()];
    let registers = Fd::new(fd::dup_upper(record.thread, b"regs/env")?);
    fd::read(registers.raw(), &mut bases)?;
    let registers = Fd::new(fd::dup_upper(thread.raw(), b"regs/env")?);
    fd::write(registers.raw(), &bases)?;

    let own = Fd::new(fd::dup_upper(record.thread, b"addrspace")?);
    let space = Fd::new(fd::dup_upper(own.raw(), b"exclusive")?);
    let entry = runtime_fork_child as *const () as usize;
    spawn::select_space(thread.raw(), space.raw(), stack, entry)?.close()?;
    spawn::start(thread.raw())
}

/// Puts the child's handles in the place of the parent's, of which it had copies.
fn become_child(record: &Record) {
    let child = record.child;
    let old = [
        state::proc_fd(),
        state::thread_fd(),
        state::filetable_fd(),
        child.former,
    ];
    state::set_fds(
        child.process,
        child.thread,
        state::namespace_fd(),
        child.filetable,
    );
    state::set_pid(0);
    for number in old {
        // The calling thread may have been the first one, or not; nothing depends on the rest.
        let _ = fd::close(number);
    }
    if record.thread != old[1] {
        let _ = fd::close(record.thread);
    }
}
