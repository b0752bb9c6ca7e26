//! Prepares a new context to run a program: address space, stack, descriptors.
//!
//! All of this goes through the handles of the new thread (`dup(thread, "addrspace")` and so on),
//! which the kernel's process scheme offers and the process manager forwards. So the same code
//! starts ordinary programs and, before the process manager exists, the first daemons.

use alloc::vec::Vec;

use libredox::Fd;
use libredox::protocol::O_CLOEXEC;
use syscall::error::{E2BIG, EIO, ENOEXEC, Error, Result};
use syscall::flag::{ADDRSPACE_OP_MMAP, MapFlags, SEEK_SET, UPPER_FDTBL_TAG};
use syscall::{PAGE_SIZE, Stat};

use crate::elf::{self, Program, ReadAt};
use crate::state::aux;
use crate::sync::Mutex;
use crate::{fd, sys};

/// End of the stack of a new program. In the first process, the kernel's metadata lies directly
/// below the top of user memory; the stack stays clear of it everywhere, which costs nothing.
const STACK_TOP: usize = 0x0000_7FFF_F000_0000;
/// The size of a program's first stack in bytes: as large as Linux's usual limit, for which
/// programs are written. The kernel allocates pages on first access, so what is not used costs
/// nothing.
pub const STACK_SIZE: usize = 8 * 1024 * 1024;
/// Largest sum of arguments and environment, in bytes.
const MAX_ARGUMENTS: usize = 512 * 1024;

/// Numbers at which a new program gets its own handles.
pub mod slot {
    use super::UPPER_FDTBL_TAG;

    /// Process.
    pub const PROC: usize = UPPER_FDTBL_TAG;
    /// First thread.
    pub const THREAD: usize = UPPER_FDTBL_TAG | 1;
    /// Namespace.
    pub const NAMESPACE: usize = UPPER_FDTBL_TAG | 2;
    /// File table.
    pub const FILETABLE: usize = UPPER_FDTBL_TAG | 3;
    /// First number free for further handles.
    pub const FREE: usize = UPPER_FDTBL_TAG | 4;
}

/// The arguments, environment and descriptors of a new program.
#[derive(Default)]
pub struct Launch<'a> {
    /// The absolute path of the program's file; empty if it is not known.
    pub program: &'a str,
    /// Arguments, the program's name first.
    pub args: Vec<&'a [u8]>,
    /// Environment, entries `NAME=value`.
    pub env: Vec<&'a [u8]>,
    /// Current directory.
    pub cwd: &'a str,
    /// Descriptors: the number in the new program, and the number here.
    pub fds: Vec<(usize, usize)>,
    /// Process descriptor to pass, if there is a process manager.
    pub process: Option<usize>,
    /// Namespace descriptor to pass.
    pub namespace: Option<usize>,
}

/// Loads `program`, whose file is `image`, into the stopped context behind `thread` and prepares
/// it to run. The caller sets credentials and starts it. `thread` must be a context that the
/// caller can discard: after an error its state is undefined.
pub fn load(
    thread: usize,
    program: &Program,
    image: &mut dyn ReadAt,
    launch: &Launch<'_>,
) -> Result<()> {
    let space = empty_space(thread)?;
    load_segments(space.raw(), program, image)?;

    let filetable = Fd::new(fd::dup_upper(thread, b"filetable-binary")?);
    let mut auxiliary = elf_auxiliary(program);
    let mut give = |key: usize, number: usize, fd: usize| -> Result<()> {
        fd::send_fd(filetable.raw(), fd, true, &[number as u64])?;
        auxiliary.push((key, number));
        Ok(())
    };
    if let Some(process) = launch.process {
        give(aux::PROC_FD, slot::PROC, process)?;
    }
    give(aux::THREAD_FD, slot::THREAD, thread)?;
    if let Some(namespace) = launch.namespace {
        give(aux::NAMESPACE_FD, slot::NAMESPACE, namespace)?;
    }
    give(aux::FILETABLE_FD, slot::FILETABLE, filetable.raw())?;
    for &(number, fd) in &launch.fds {
        fd::send_fd(filetable.raw(), fd, true, &[number as u64])?;
    }
    let stack = load_stack(space.raw(), launch, &auxiliary)?;

    let _choosing = hold_choices();
    select_space(thread, space.raw(), stack, program.entry)?.close()?;
    Ok(())
}

/// Makes a new, empty address space.
pub(crate) fn empty_space(thread: usize) -> Result<Fd> {
    let first = Fd::new(fd::dup_upper(thread, b"addrspace")?);
    Ok(Fd::new(fd::dup_upper(first.raw(), b"empty")?))
}

/// Returns the entries that every ELF program's auxiliary vector has.
pub(crate) fn elf_auxiliary(program: &Program) -> Vec<(usize, usize)> {
    alloc::vec![
        (3, program.headers),
        (4, elf::HEADER_SIZE),
        (5, program.header_count),
        (6, PAGE_SIZE),
        (9, program.entry),
    ]
}

/// Held while a handle is open that selects a thread's memory or descriptors. The selection takes
/// effect when the last copy of the handle is closed. If another thread forked meanwhile, its
/// child would have a copy of the handle, and the thread would start with nothing selected.
static CHOOSING: Mutex<()> = Mutex::new(());

/// Keeps other threads from opening such handles as long as the result lives.
pub(crate) fn hold_choices() -> impl Drop {
    CHOOSING.lock()
}

/// Selects address space, stack and entry point of a thread. The switch happens when the returned
/// handle is closed.
pub(crate) fn select_space(thread: usize, space: usize, stack: usize, entry: usize) -> Result<Fd> {
    let selection = Fd::new(fd::dup_upper(thread, b"current-addrspace")?);
    let words = [space, stack, entry];
    fd::write(
        selection.raw(),
        words.map(usize::to_ne_bytes).as_flattened(),
    )?;
    Ok(selection)
}

/// Starts the context behind `thread`.
pub fn start(thread: usize) -> Result<()> {
    let start = Fd::new(fd::dup_upper(thread, b"start")?);
    fd::write(start.raw(), &[0]).map(|_| ())
}

/// Maps anonymous pages into the address space behind a handle.
fn map_remote(space: usize, address: usize, size: usize, flags: MapFlags) -> Result<()> {
    let flags = flags | MapFlags::MAP_PRIVATE;
    map_file_remote(space, (sys::NO_FD, 0), address, size, flags)
}

/// Maps pages of a file, from an offset on, into the address space behind a handle.
pub(crate) fn map_file_remote(
    space: usize,
    (file, offset): (usize, usize),
    address: usize,
    size: usize,
    flags: MapFlags,
) -> Result<()> {
    let flags = flags | MapFlags::MAP_FIXED_NOREPLACE;
    let words = [ADDRSPACE_OP_MMAP, file, offset, address, size, flags.bits()];
    match fd::write(space, words.map(usize::to_ne_bytes).as_flattened())? {
        mapped if mapped == address => Ok(()),
        _ => Err(Error::new(EIO)),
    }
}

/// Pages of another address space, mapped here temporarily.
struct Window {
    base: usize,
    size: usize,
}

impl Window {
    fn open(space: usize, address: usize, size: usize) -> Result<Window> {
        let flags = MapFlags::PROT_READ | MapFlags::PROT_WRITE | MapFlags::MAP_SHARED;
        // SAFETY: without MAP_FIXED the mapping replaces nothing.
        let base = unsafe { fd::mmap(space, address, size, 0, flags) }?;
        Ok(Window { base, size })
    }

    fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: the kernel mapped `size` bytes here for this window alone; the context that will
        // own the pages does not run yet.
        unsafe { core::slice::from_raw_parts_mut(self.base as *mut u8, self.size) }
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        // SAFETY: the slice handed out by `bytes` borrows the window, so nobody has it any more.
        let _ = unsafe { fd::munmap(self.base, self.size) };
    }
}

/// Largest window, so that a big segment does not take its full size in this address space, too.
const WINDOW: usize = 1024 * 1024;

/// Maps the segments and fills them from the file.
pub(crate) fn load_segments(space: usize, program: &Program, image: &mut dyn ReadAt) -> Result<()> {
    for segment in &program.segments {
        let (base, size) = segment.pages();
        // EEXIST means that two segments overlap.
        map_remote(space, base, size, segment.protection).map_err(|error| match error.errno {
            syscall::EEXIST => Error::new(ENOEXEC),
            _ => error,
        })?;
        let mut done = 0;
        while done < segment.file_size {
            let address = segment.address + done;
            let page = address / PAGE_SIZE * PAGE_SIZE;
            let skip = address - page;
            let count = (segment.file_size - done).min(WINDOW - skip);
            let mut window = Window::open(space, page, (skip + count).next_multiple_of(PAGE_SIZE))?;
            image.read_at(
                segment.offset + done,
                &mut window.bytes()[skip..skip + count],
            )?;
            done += count;
        }
    }
    Ok(())
}

/// Maps the stack and writes the argument block. Returns the stack pointer.
pub(crate) fn load_stack(
    space: usize,
    launch: &Launch<'_>,
    extra: &[(usize, usize)],
) -> Result<usize> {
    let mut strings: Vec<u8> = Vec::new();
    let mut offsets = Vec::new();
    for text in launch.args.iter().chain(&launch.env) {
        offsets.push(strings.len());
        strings.extend_from_slice(text);
        strings.push(0);
    }
    let cwd = strings.len();
    strings.extend_from_slice(launch.cwd.as_bytes());
    strings.push(0);
    let program = strings.len();
    strings.extend_from_slice(launch.program.as_bytes());
    strings.push(0);

    let vector = extra.len() + 4;
    let words = 1 + launch.args.len() + 1 + launch.env.len() + 1 + 2 * vector;
    let total = words * size_of::<usize>() + strings.len();
    if total > MAX_ARGUMENTS {
        return Err(Error::new(E2BIG));
    }
    // Every program expects a pointer that is 16-byte aligned.
    let pointer = (STACK_TOP - total) / 16 * 16;
    let base = pointer + words * size_of::<usize>();

    let mut block: Vec<u8> = Vec::with_capacity(total);
    let mut push = |word: usize| block.extend_from_slice(&word.to_ne_bytes());
    let (args, env) = offsets.split_at(launch.args.len());
    push(args.len());
    args.iter().for_each(|offset| push(base + offset));
    push(0);
    env.iter().for_each(|offset| push(base + offset));
    push(0);
    for &(key, value) in extra {
        push(key);
        push(value);
    }
    push(aux::CWD_PTR);
    push(base + cwd);
    push(aux::CWD_LEN);
    push(launch.cwd.len());
    push(aux::PROGRAM_PTR);
    push(base + program);
    push(0);
    push(0);
    block.extend_from_slice(&strings);

    let flags = MapFlags::PROT_READ | MapFlags::PROT_WRITE;
    map_remote(space, STACK_TOP - STACK_SIZE, STACK_SIZE, flags)?;
    // The guard page: nothing can be mapped where a stack overflow would write.
    let guard = STACK_TOP - STACK_SIZE - PAGE_SIZE;
    map_remote(space, guard, PAGE_SIZE, MapFlags::empty())?;
    let page = pointer / PAGE_SIZE * PAGE_SIZE;
    let mut window = Window::open(space, page, STACK_TOP - page)?;
    let skip = pointer - page;
    window.bytes()[skip..skip + block.len()].copy_from_slice(&block);
    Ok(pointer)
}

/// An open program file.
pub struct ProgramFile {
    fd: Fd,
}

impl ProgramFile {
    /// Opens the program at `path`.
    pub fn open(path: &str) -> Result<ProgramFile> {
        let fd = crate::path::open_upper(path, syscall::O_RDONLY | O_CLOEXEC)?;
        Ok(ProgramFile { fd: Fd::new(fd) })
    }

    /// The file's attributes.
    pub fn attributes(&self) -> Result<Stat> {
        fd::fstat(self.fd.raw())
    }

    /// Reads the start of the file into `buffer`, and returns how many bytes it has.
    pub fn start(&mut self, buffer: &mut [u8]) -> Result<usize> {
        fd::lseek(self.fd.raw(), 0, SEEK_SET)?;
        let mut count = 0;
        while count < buffer.len() {
            match fd::read(self.fd.raw(), &mut buffer[count..])? {
                0 => break,
                more => count += more,
            }
        }
        Ok(count)
    }
}

impl ReadAt for ProgramFile {
    fn read_at(&mut self, offset: usize, mut buffer: &mut [u8]) -> Result<()> {
        let offset = i64::try_from(offset).map_err(|_| Error::new(EIO))?;
        fd::lseek(self.fd.raw(), offset, SEEK_SET)?;
        while !buffer.is_empty() {
            match fd::read(self.fd.raw(), buffer)? {
                0 => return Err(Error::new(EIO)),
                count => buffer = &mut buffer[count..],
            }
        }
        Ok(())
    }
}
