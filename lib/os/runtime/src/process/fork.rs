//! Forks this process: makes a child with copies of its memory and descriptors and with one
//! thread, which continues where the caller of [`fork`] does.
//!
//! The child has everything except the other threads, mappings of schemes that the caller does not
//! name, and memory that the kernel does not copy. Whatever the other threads were doing stays
//! incomplete in the child for ever, so a lock that one of them held stays locked. `fork` itself
//! holds the runtime's locks while memory is copied; other libraries have to take care of theirs.

use alloc::format;
use core::ops::Range;
use core::ptr;

use libredox::Fd;
use syscall::error::Result;
use syscall::flag::MapFlags;
use syscall::{GrantDesc, GrantFlags};

use super::meta;
use crate::{env, fd, fdtable, heap, signals, spawn, state, thread};

core::arch::global_asm!(
    ".section .text.runtime_fork,\"ax\",@progbits",
    ".global runtime_fork",
    ".type runtime_fork,@function",
    // Registers kept for the caller go onto the stack, of which the child has a copy.
    "runtime_fork:",
    "push rbx",
    "push rbp",
    "push r12",
    "push r13",
    "push r14",
    "push r15",
    "sub rsp, 8",
    // The floating-point environment, which the child has, too.
    "stmxcsr dword ptr [rsp]",
    "fnstcw word ptr [rsp + 4]",
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
    "fninit",
    "ldmxcsr dword ptr [rsp]",
    "fldcw word ptr [rsp + 4]",
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

/// The results of `runtime_fork` in the child and in the parent.
const IN_CHILD: usize = 1;
const IN_PARENT: usize = 0;

/// The descriptors of a fork, whose numbers parent and child share.
struct Record {
    /// The calling thread.
    own_thread: usize,
    /// Handles for the child.
    process: usize,
    thread: usize,
    /// The parent's file table and memory.
    former: usize,
    space: usize,
    /// Copies of those two, for the child: numbers reserved until [`double`] has made the copies.
    filetable: usize,
    copy: usize,
    /// The child's initial stack pointer.
    stack: usize,
    doubled: Result<()>,
}

/// The outcome of a fork.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fork {
    /// The caller is the parent.
    Parent {
        /// The child's process id.
        pid: u32,
        /// A descriptor of the child's thread, the caller's to close.
        thread: usize,
    },
    /// The caller is the child; its thread has this descriptor.
    Child(usize),
}

/// Forks the process. `thread` is the descriptor of the calling thread. The child gets the mappings
/// of schemes in the ranges `shared`, too.
///
/// # Errors
/// `EAGAIN` for too many processes; `ENOMEM`; `ESRCH` below the process manager; `EMFILE`. Those
/// of mapping.
///
/// # Safety
/// The child uses nothing else that was mapped by a scheme, and nothing that another thread may
/// have been changing.
pub unsafe fn fork(thread: usize, shared: &[Range<usize>]) -> Result<Fork> {
    let own = fd::check(state::proc_fd())?;
    let process = Fd::new(fd::dup_upper(own, signals::fork_name())?);
    let pid = meta(process.raw())?.pid;
    let forked = prepare(thread, process).and_then(|mut record| {
        // SAFETY: the caller's promise.
        if unsafe { split(&mut record) } == IN_CHILD {
            become_child(&record);
            return Ok(Fork::Child(record.thread));
        }
        let started = record
            .doubled
            .and_then(|()| share(&record, shared))
            .and_then(|()| start(&record));
        close_in_parent(&record);
        let thread = record.thread;
        match started {
            Ok(()) => Ok(Fork::Parent { pid, thread }),
            Err(error) => {
                let _ = fd::close(thread);
                Err(error)
            }
        }
    });
    if forked.is_err() {
        // The half-made process must not stay behind; an error means that it has gone.
        let _ = super::kill(pid, 9).and_then(|()| super::wait_pid(pid, false));
    }
    forked
}

/// Opens all descriptors that are needed before memory and file table are copied.
fn prepare(own_thread: usize, process: Fd) -> Result<Record> {
    let thread = Fd::new(fd::dup_upper(process.raw(), b"thread-0")?);
    let former = Fd::new(fd::dup_upper(own_thread, b"filetable-binary")?);
    let space = Fd::new(fd::dup_upper(own_thread, b"addrspace")?);
    let filetable = fdtable::reserve_upper()?;
    let copy = fdtable::reserve_upper().inspect_err(|_| fdtable::release(filetable))?;
    // From now on they may be closed, whether they are open or not.
    fdtable::opened(filetable);
    fdtable::opened(copy);
    // From here on `close_in_parent` and `become_child` close them.
    Ok(Record {
        own_thread,
        process: process.into_raw(),
        thread: thread.into_raw(),
        former: former.into_raw(),
        space: space.into_raw(),
        filetable,
        copy,
        stack: 0,
        doubled: Ok(()),
    })
}

/// Keeps other threads from changing the runtime's data as long as the result lives.
pub(super) fn hold() -> impl Sized {
    // In the order in which the runtime nests these locks.
    (
        env::hold(),
        state::hold(),
        thread::hold(),
        spawn::hold_choices(),
        fdtable::hold(),
        heap::hold(),
    )
}

/// Copies memory and file table while no other thread is in the middle of a change to the
/// runtime's data. Both processes return from this, and release the locks.
///
/// # Safety
/// That of [`fork`].
unsafe fn split(record: &mut Record) -> usize {
    let _held = hold();
    // SAFETY: the record lives across the call; what follows runs once in each process, with a
    // stack of its own.
    unsafe { runtime_fork(ptr::from_mut(record).cast()) }
}

/// First Rust code that `runtime_fork` calls, in the parent. It allocates neither memory nor
/// numbers, as the locks of both are held.
unsafe extern "C" fn double(record: *mut u8, stack: usize) -> usize {
    // SAFETY: the record of `fork`, which nobody else has.
    let record = unsafe { &mut *record.cast::<Record>() };
    record.stack = stack;
    // The memory last, so that the child's copy of the record is complete.
    record.doubled = fd::dup_at(record.former, b"copy", record.filetable)
        .and_then(|()| fd::dup_at(record.space, b"exclusive", record.copy));
    IN_PARENT
}

/// Maps this process's mappings of schemes in the ranges in the child's memory, too.
fn share(record: &Record, ranges: &[Range<usize>]) -> Result<()> {
    if ranges.is_empty() {
        return Ok(());
    }
    let mut grant = GrantDesc::default();
    while fd::read(record.space, &mut grant)? == size_of::<GrantDesc>() {
        let (start, end) = (grant.base, grant.base + grant.size);
        let is_in = |range: &Range<usize>| range.start <= start && end <= range.end;
        if !grant.flags.contains(GrantFlags::GRANT_SCHEME) || !ranges.iter().any(is_in) {
            continue;
        }
        let name = format!("grant-fd-{start:x}");
        let file = Fd::new(fd::dup_upper(record.space, name.as_bytes())?);
        let mut flags = MapFlags::MAP_SHARED;
        for (from, to) in [
            (GrantFlags::GRANT_READ, MapFlags::PROT_READ),
            (GrantFlags::GRANT_WRITE, MapFlags::PROT_WRITE),
            (GrantFlags::GRANT_EXEC, MapFlags::PROT_EXEC),
        ] {
            flags.set(to, grant.flags.contains(from));
        }
        let source = (file.raw(), grant.offset as usize);
        spawn::map_file_remote(record.copy, source, start, grant.size, flags)?;
    }
    Ok(())
}

/// Gives the child its descriptors and memory, and starts it.
fn start(record: &Record) -> Result<()> {
    let choosing = spawn::hold_choices();
    let selection = Fd::new(fd::dup_upper(record.thread, b"current-filetable")?);
    fd::write(selection.raw(), &record.filetable.to_ne_bytes())?;
    selection.close()?;
    drop(choosing);
    // The child's own handle. The one that it was copied with belongs to this process's thread,
    // and descriptors sent through it go into this process's table.
    let table = Fd::new(fd::dup_upper(record.thread, b"filetable-binary")?);
    let number = record.filetable as u64;
    fd::send_fd(table.raw(), table.raw(), true, &[number])?;

    // Thread-local storage has the same address in the child.
    let mut bases = [0; 2 * size_of::<usize>()];
    let registers = Fd::new(fd::dup_upper(record.own_thread, b"regs/env")?);
    fd::read(registers.raw(), &mut bases)?;
    let registers = Fd::new(fd::dup_upper(record.thread, b"regs/env")?);
    fd::write(registers.raw(), &bases)?;

    let entry = runtime_fork_child as *const () as usize;
    {
        let _choosing = spawn::hold_choices();
        spawn::select_space(record.thread, record.copy, record.stack, entry)?.close()?;
    }
    spawn::start(record.thread)
}

/// Closes the descriptors that were opened for the child, except its thread, and frees numbers
/// that were only reserved.
fn close_in_parent(record: &Record) {
    for number in [
        record.process,
        record.former,
        record.space,
        record.filetable,
        record.copy,
    ] {
        // A number that was only reserved is free afterwards, too.
        let _ = fd::close(number);
    }
}

/// Replaces the parent's handles, which were copied, with the child's own.
fn become_child(record: &Record) {
    fdtable::forget_under_way();
    let old = [
        state::proc_fd(),
        state::thread_fd(),
        state::filetable_fd(),
        record.former,
        record.space,
    ];
    state::set_fds(
        record.process,
        record.thread,
        state::namespace_fd(),
        record.filetable,
    );
    state::set_pid(0);
    for number in old {
        // The calling thread need not have been the first one. Errors of the others do not matter.
        let _ = fd::close(number);
    }
    if record.own_thread != old[1] {
        let _ = fd::close(record.own_thread);
    }
    // Numbers that other threads had reserved and not used yet, or closed and not freed yet.
    for number in fdtable::used() {
        if fd::fcntl(number, syscall::F_GETFD, 0).is_err() {
            fdtable::release(number);
        }
    }
}
