//! Contexts and address spaces through `kernel.proc` (Redox's `src/scheme/proc.rs`), and
//! the child contexts the other checks need as a second party.

use crate::suite::{Check, Suite, Verdict, expect, hold, must, scheme_id::*};
use crate::sys::{self, Outcome};
use alloc::{format, string::String};
use runtime::probe::{self, peek, peek_word, poke};
use syscall::error::*;
use syscall::{ContextStatus, ContextVerb, EventFlags, MapFlags, O_RDONLY, O_RDWR, PAGE_SIZE};

const STACK: usize = 16 * PAGE_SIZE;
/// Descriptor numbers that a child may use.
const CHILD_SLOTS: usize = 16;

/// The memory that a child sees.
#[derive(Clone, Copy, PartialEq)]
pub enum Space {
    /// The same address space: a thread.
    Same,
    /// A copy-on-write clone: a process. Descriptors are shared in both cases.
    Clone,
}

/// The descriptors that a child has.
pub enum Table<'a> {
    /// The same table.
    Same,
    /// A copy.
    Copy,
    /// Its own, filled through a handle of it.
    Own(&'a dyn Fn(usize) -> Result<(), String>),
}

/// A second context, running a function of this program.
pub struct Child {
    /// Its handle.
    pub context: usize,
    /// Its status handle.
    pub status: usize,
    /// A number for passing descriptors.
    slot: usize,
    stack: usize,
}

/// The stack of a context that does not run yet.
pub struct Stack {
    stack: usize,
    pointer: usize,
}

impl Stack {
    /// A stack of this address space, on which `function(argument)` can run.
    pub fn new(function: fn(usize) -> !, argument: usize) -> Result<Self, String> {
        let stack = must("stack", sys::fmap_anonymous(STACK, rw()))?;
        for page in 0..STACK / PAGE_SIZE {
            poke(stack + page * PAGE_SIZE, 0);
        }
        let pointer = probe::prepare_stack(stack + STACK, function, argument);
        Ok(Self { stack, pointer })
    }

    /// Starts a context on the copy of the stack in a clone of this space, without descriptors.
    pub fn start_in(self, suite: &Suite, space: usize) -> Result<Child, String> {
        let context = must("new-context", suite.dup(suite.root(PROC), b"new-context"))?;
        let status = must("status", suite.dup(context, b"status"))?;
        let name = b"current-addrspace";
        let select = must("current-addrspace", suite.dup(context, name))?;
        let words = [space, self.pointer, probe::context_entry()];
        must("select space", write_words(select, &words))?;
        must("switch space", sys::close(select))?;
        let start = must("start", suite.dup(context, b"start"))?;
        must("run", sys::write(start, b"1"))?;
        must("close start", sys::close(start))?;
        Ok(Child {
            context,
            status,
            slot: suite.slot(),
            stack: self.stack,
        })
    }
}

fn rw() -> MapFlags {
    MapFlags::PROT_READ | MapFlags::PROT_WRITE | MapFlags::MAP_PRIVATE
}

/// Writes the words of a small record to a handle.
pub fn write_words(fd: usize, words: &[usize]) -> Outcome {
    let mut bytes = [0u8; 64];
    for (slot, word) in bytes.chunks_exact_mut(8).zip(words) {
        slot.copy_from_slice(&word.to_le_bytes());
    }
    sys::write(fd, &bytes[..8 * words.len()])
}

impl Child {
    /// Starts `function(argument)` in a new context with the descriptors of this one.
    pub fn start(
        suite: &Suite,
        space: Space,
        function: fn(usize) -> !,
        argument: usize,
    ) -> Result<Child, String> {
        Child::start_with(suite, space, Table::Same, function, argument)
    }

    /// Starts `function(argument)` in a new context.
    pub fn start_with(
        suite: &Suite,
        space: Space,
        table_of_child: Table<'_>,
        function: fn(usize) -> !,
        argument: usize,
    ) -> Result<Child, String> {
        let Stack { stack, pointer } = Stack::new(function, argument)?;
        let context = must("new-context", suite.dup(suite.root(PROC), b"new-context"))?;
        let status = must("status", suite.dup(context, b"status"))?;
        let own = must("cur-context", suite.dup(suite.root(PROC), b"cur-context"))?;
        let mut memory = must("addrspace", suite.dup(own, b"addrspace"))?;
        if space == Space::Clone {
            let clone = must("clone", suite.dup(memory, b"exclusive"))?;
            must("close", sys::close(memory))?;
            memory = clone;
        }
        let select = must(
            "current-addrspace",
            suite.dup(context, b"current-addrspace"),
        )?;
        let words = [memory, pointer, probe::context_entry()];
        must("select space", write_words(select, &words))?;
        must("switch space", sys::close(select))?;
        match table_of_child {
            Table::Same | Table::Copy => {
                let mut table = must("filetable", suite.dup(own, b"filetable"))?;
                if matches!(table_of_child, Table::Copy) {
                    let copy = must("copy", suite.dup(table, b"copy"))?;
                    must("close", sys::close(table))?;
                    table = copy;
                }
                let select = must(
                    "current-filetable",
                    suite.dup(context, b"current-filetable"),
                )?;
                must("select table", write_words(select, &[table]))?;
                must("switch table", sys::close(select))?;
                must("close", sys::close(table))?;
            }
            Table::Own(fill) => {
                let table = must("filetable", suite.dup(context, b"filetable"))?;
                fill(table)?;
                must("close", sys::close(table))?;
            }
        }
        for fd in [memory, own] {
            must("close", sys::close(fd))?;
        }
        let start = must("start", suite.dup(context, b"start"))?;
        must("run", sys::write(start, b"1"))?;
        must("close start", sys::close(start))?;
        Ok(Child {
            context,
            status,
            slot: suite.slot(),
            stack,
        })
    }

    /// A status handle that may stop and kill.
    pub fn privileged_status(&self, suite: &Suite) -> Result<usize, String> {
        let name = format!("auth-{}-status", suite.root(PROC));
        must(
            "privileged status",
            suite.dup(self.context, name.as_bytes()),
        )
    }

    /// The status word and, after an exception, its vector and error code.
    pub fn status(&self) -> Result<(usize, usize), String> {
        let mut report = [0u8; 64];
        must("status", sys::read(self.status, &mut report))?;
        let word = |at: usize| -> usize {
            let bytes: [u8; 8] = report[at..at + 8].try_into().unwrap_or([0; 8]);
            usize::from_le_bytes(bytes)
        };
        Ok((word(0), word(8)))
    }

    /// The context's end, however it came, as `status`; `None` while it goes on. It is one
    /// look: on another processor the context may end between two.
    pub fn ended_with(&self) -> Result<Option<(usize, usize)>, String> {
        let (status, detail) = self.status()?;
        let ended = if status == ContextStatus::ForceKilled as usize {
            // It says so as soon as it is killed, when it may still be on its way out on another
            // processor. The address space goes last.
            match sys::dup(self.context, b"addrspace", self.slot) {
                Ok(space) => must("close", sys::close(space)).map(|_| false)?,
                Err(ENOENT) => true,
                Err(errno) => {
                    return Err(format!("the address space of a killed context: {errno}"));
                }
            }
        } else {
            status == ContextStatus::Dead as usize
                || status == ContextStatus::UnhandledExcp as usize
        };
        Ok(ended.then_some((status, detail)))
    }

    /// Waits until the context has ended, however it did, a minute at most, and releases what it
    /// used.
    pub fn join(self) -> Result<(usize, usize), String> {
        for _ in 0..30_000 {
            if let Some(end) = self.ended_with()? {
                for fd in [self.status, self.context] {
                    must("close", sys::close(fd))?;
                }
                must("stack", sys::funmap(self.stack, STACK))?;
                return Ok(end);
            }
            must("sleep", sys::nanosleep(2_000_000))?;
        }
        Err(format!(
            "the context did not end: status {}",
            self.status()?.0
        ))
    }
}

/// Ends the calling context.
pub fn end(suite_root_proc: usize, slot: usize) -> ! {
    let _ = sys::dup(suite_root_proc, b"cur-context", slot);
    let _ = write_words(slot, &[usize::MAX]);
    loop {
        sys::yield_now();
    }
}

/// Data for children; it lies in memory that both sides see.
#[derive(Clone, Copy)]
pub struct Shared {
    /// kernel.proc root.
    pub proc_root: usize,
    /// First descriptor number of the child's own range.
    pub slots: usize,
    /// An address or a descriptor the check passes.
    pub value: usize,
}

fn store(argument: usize) -> ! {
    let shared = read_shared(argument);
    poke(shared.value, 42);
    end(shared.proc_root, shared.slots)
}

/// Reads from the descriptor whose number is in a cell, and stores the error number behind it.
fn read_until_interrupted(argument: usize) -> ! {
    let shared = read_shared(argument);
    let read = sys::read(peek_word(shared.value) as usize, &mut [0]);
    let errno = read.err().and_then(|errno| u8::try_from(errno).ok());
    poke(shared.value + 8, errno.unwrap_or(u8::MAX));
    end(shared.proc_root, shared.slots)
}

fn close_one(argument: usize) -> ! {
    let shared = read_shared(argument);
    let _ = sys::close(shared.value);
    end(shared.proc_root, shared.slots)
}

fn fault(argument: usize) -> ! {
    let shared = read_shared(argument);
    poke(0x5555_0000_0000, 1);
    end(shared.proc_root, shared.slots)
}

fn spin(_: usize) -> ! {
    loop {
        core::hint::spin_loop();
    }
}

fn sleep_for_ever(argument: usize) -> ! {
    let shared = read_shared(argument);
    loop {
        let mut byte = [0];
        let _ = sys::read(shared.value, &mut byte);
    }
}

/// Reads the record a child's argument points to.
pub fn read_shared(argument: usize) -> Shared {
    let word = |index: usize| probe::peek_word(argument + 8 * index) as usize;
    Shared {
        proc_root: word(0),
        slots: word(1),
        value: word(2),
    }
}

/// Puts the record somewhere a child can read it.
pub fn share(suite: &Suite, value: usize) -> Result<usize, String> {
    let words = [suite.root(PROC), suite.slot(), value];
    suite.reserve_slots(CHILD_SLOTS);
    record(words)
}

/// A page with the words of the record in it.
pub fn record(words: [usize; 3]) -> Result<usize, String> {
    let page = must("record", sys::fmap_anonymous(PAGE_SIZE, rw()))?;
    for (index, word) in words.into_iter().enumerate() {
        for (at, byte) in word.to_le_bytes().into_iter().enumerate() {
            poke(page + 8 * index + at, byte);
        }
    }
    Ok(page)
}

const CHECKS: &[Check] = &[
    (
        "a thread shares memory and ends by its own handle",
        thread_shares_memory,
    ),
    (
        "a clone has its own copy of private memory, and shares MAP_SHARED",
        clone_copies,
    ),
    (
        "a copied file table has the same descriptors, and closes its own",
        copied_table,
    ),
    (
        "an exception ends only its own context and is reported by status",
        exception_ends_one,
    ),
    (
        "a spinning context is preempted and can be killed",
        spinning_is_killed,
    ),
    (
        "the end of a context is an event on the handle that made it",
        end_is_an_event,
    ),
    ("an interrupted wait ends with EINTR", interrupted_wait),
    (
        "stop and kill through an unprivileged status handle are EPERM",
        unprivileged_status,
    ),
    (
        "an empty address space can be filled and borrowed",
        empty_space,
    ),
    ("FS base through regs/env", fs_base),
];

pub fn run(suite: &Suite) {
    suite.check_all(CHECKS);
}

fn thread_shares_memory(suite: &Suite) -> Verdict {
    let cell = must("cell", sys::fmap_anonymous(PAGE_SIZE, rw()))?;
    let child = Child::start(suite, Space::Same, store, share(suite, cell)?)?;
    let (status, _) = child.join()?;
    expect("status", status, ContextStatus::Dead as usize)?;
    expect("stored", peek(cell), 42)
}

fn clone_copies(suite: &Suite) -> Verdict {
    let private = must("private", sys::fmap_anonymous(PAGE_SIZE, rw()))?;
    poke(private, 1);
    let child = Child::start(suite, Space::Clone, store, share(suite, private)?)?;
    child.join()?;
    expect("untouched", peek(private), 1)?;
    let flags = MapFlags::PROT_READ | MapFlags::PROT_WRITE | MapFlags::MAP_SHARED;
    let shared = must("shared", sys::fmap_anonymous(PAGE_SIZE, flags))?;
    poke(shared, 1);
    let child = Child::start(suite, Space::Clone, store, share(suite, shared)?)?;
    child.join()?;
    expect("seen", peek(shared), 42)
}

fn copied_table(suite: &Suite) -> Verdict {
    for (table, left) in [(Table::Copy, true), (Table::Same, false)] {
        let own = must("cur-context", suite.dup(suite.root(PROC), b"cur-context"))?;
        let argument = share(suite, own)?;
        let child = Child::start_with(suite, Space::Same, table, close_one, argument)?;
        child.join()?;
        // The child has closed it in its own table.
        let closed = sys::close(own);
        hold(&format!("close: {closed:?}"), closed.is_ok() == left)?;
    }
    Ok(())
}

fn exception_ends_one(suite: &Suite) -> Verdict {
    let child = Child::start(suite, Space::Clone, fault, share(suite, 0)?)?;
    let (status, vector) = child.join()?;
    expect("status", status, ContextStatus::UnhandledExcp as usize)?;
    expect("page fault", vector, 14)
}

fn spinning_is_killed(suite: &Suite) -> Verdict {
    let child = Child::start(suite, Space::Same, spin, 0)?;
    must("sleep", sys::nanosleep(10_000_000))?;
    let privileged = child.privileged_status(suite)?;
    must("kill", write_words(privileged, &[usize::MAX]))?;
    let (status, _) = child.join()?;
    hold(&format!("ended, status {status}"), status != 0)?;
    expect("close", sys::close(privileged), Ok(0))
}

fn end_is_an_event(suite: &Suite) -> Verdict {
    let pipe = must("pipe", suite.open(PIPE, "", O_RDONLY))?;
    let write = must("write end", suite.dup(pipe, b"write"))?;
    let child = Child::start(suite, Space::Same, sleep_for_ever, share(suite, pipe)?)?;
    let queue = must("queue", suite.open(EVENT, "", O_RDWR))?;
    must(
        "watch",
        crate::ipc::subscribe(queue, child.context, EventFlags::EVENT_READ, 9),
    )?;
    let privileged = child.privileged_status(suite)?;
    must("sleep", sys::nanosleep(10_000_000))?;
    must(
        "kill a blocked context",
        write_words(privileged, &[usize::MAX]),
    )?;
    let event = crate::ipc::next_event(queue).map_err(|e| format!("no event: {e}"))?;
    expect("data", event.data, 9)?;
    child.join()?;
    for fd in [pipe, write, queue, privileged] {
        must("close", sys::close(fd))?;
    }
    Ok(())
}

fn interrupted_wait(suite: &Suite) -> Verdict {
    let pipe = must("pipe", suite.open(PIPE, "", O_RDONLY))?;
    let write = must("write end", suite.dup(pipe, b"write"))?;
    let cell = must("cell", sys::fmap_anonymous(PAGE_SIZE, rw()))?;
    for (place, byte) in (cell..).zip(pipe.to_le_bytes()) {
        poke(place, byte);
    }
    let child = Child::start(
        suite,
        Space::Same,
        read_until_interrupted,
        share(suite, cell)?,
    )?;
    // Only a context that waits is interrupted.
    while peek(cell + 8) == 0 {
        let interrupt = [ContextVerb::Interrupt as usize];
        must("interrupt", write_words(child.status, &interrupt))?;
        sys::yield_now();
    }
    expect("error", i32::from(peek(cell + 8)), EINTR)?;
    child.join()?;
    for fd in [pipe, write] {
        must("close", sys::close(fd))?;
    }
    Ok(())
}

fn unprivileged_status(suite: &Suite) -> Verdict {
    let child = Child::start(suite, Space::Same, spin, 0)?;
    expect("stop", write_words(child.status, &[1]), Err(EPERM))?;
    let privileged = child.privileged_status(suite)?;
    must("kill", write_words(privileged, &[usize::MAX]))?;
    child.join()?;
    expect("close", sys::close(privileged), Ok(0))
}

fn empty_space(suite: &Suite) -> Verdict {
    let own = must("cur-context", suite.dup(suite.root(PROC), b"cur-context"))?;
    let memory = must("addrspace", suite.dup(own, b"addrspace"))?;
    let empty = must("empty", suite.dup(memory, b"empty"))?;
    let at = 0x40_0000;
    let flags = rw() | MapFlags::MAP_FIXED_NOREPLACE;
    let words = [0, usize::MAX, 0, at, 2 * PAGE_SIZE, flags.bits()];
    expect("map there", write_words(empty, &words), Ok(at))?;
    let map = syscall::Map {
        offset: at,
        size: 2 * PAGE_SIZE,
        flags: shared(),
        address: 0,
    };
    let here = must("borrow", sys::fmap(empty, &map))?;
    poke(here + PAGE_SIZE, 0x77);
    // the operation records moved the descriptor's offset by the addresses they returned
    must("rewind", sys::lseek(empty, 0, 0))?;
    let mut list = [0u8; 128];
    let n = must("grants", sys::read(empty, &mut list))?;
    hold(&format!("whole records, got {n}"), n > 0 && n % 32 == 0)?;
    let base: [u8; 8] = list[..8].try_into().unwrap_or([0; 8]);
    expect("grant base", usize::from_le_bytes(base), at)?;
    let again = must("borrow again", sys::fmap(empty, &map))?;
    expect("same page", peek(again + PAGE_SIZE), 0x77)?;
    must("unmap", sys::funmap(here, 2 * PAGE_SIZE))?;
    must("unmap", sys::funmap(again, 2 * PAGE_SIZE))?;
    let hole = syscall::Map {
        offset: 0x900_0000,
        size: PAGE_SIZE,
        flags: shared(),
        address: 0,
    };
    hold(
        "a hole cannot be borrowed",
        sys::fmap(empty, &hole).is_err(),
    )?;
    for fd in [empty, memory, own] {
        must("close", sys::close(fd))?;
    }
    Ok(())
}

fn fs_base(suite: &Suite) -> Verdict {
    let cell = must("cell", sys::fmap_anonymous(PAGE_SIZE, rw()))?;
    poke(cell, 0x5a);
    let own = must("cur-context", suite.dup(suite.root(PROC), b"cur-context"))?;
    let registers = must("regs/env", suite.dup(own, b"regs/env"))?;
    must("write", write_words(registers, &[cell, 0]))?;
    let found = probe::read_fs();
    let mut back = [0u8; 16];
    must("read back", sys::read(registers, &mut back))?;
    must("restore", write_words(registers, &[0, 0]))?;
    let _ = (sys::close(registers), sys::close(own));
    expect("through fs", found, 0x5a)?;
    expect("read back", &back[..8], cell.to_le_bytes().as_slice())
}

fn shared() -> MapFlags {
    MapFlags::PROT_READ | MapFlags::PROT_WRITE | MapFlags::MAP_SHARED
}
