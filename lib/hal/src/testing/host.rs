//! The symbols of the system library, for tests of this crate on another system. They refuse every
//! call, unless a test simulates the system with [`play`].

#[allow(unused_extern_crates, reason = "the crate's own tests have it already")]
extern crate std;

use core::alloc::Layout;
use core::sync::atomic::AtomicU8;
use std::boxed::Box;
use std::cell::{Cell, RefCell};

use libredox::data::TimeSpec;
use syscall::error::{ENOMEM, ENOSYS, EOVERFLOW, Error, Result};

use crate::mem::PAGE;

/// A request of a program to the system.
#[derive(Debug)]
pub enum Request<'a> {
    /// Opens a path.
    Open(&'a str),
    /// Duplicates a descriptor, or asks for the object of this name.
    Dup(usize, &'a [u8]),
    /// Closes a descriptor.
    Close(usize),
    /// Reads.
    Read(usize, &'a mut [u8]),
    /// Writes.
    Write(usize, &'a [u8]),
    /// A scheme call: descriptor, payload, metadata.
    Call(usize, &'a mut [u8], &'a [u64]),
    /// Maps.
    Map {
        /// Where, if not 0.
        address: usize,
        /// Bytes.
        bytes: usize,
        /// Rights, as `PROT_READ` and `PROT_WRITE` have them.
        protection: u32,
        /// Flags: 4 is `MAP_FIXED`.
        flags: u32,
        /// Of which file.
        fd: usize,
        /// From where in it.
        offset: u64,
    },
    /// Unmaps: address and bytes.
    Unmap(usize, usize),
    /// `fcntl`: descriptor, command, argument.
    Control(usize, usize, usize),
    /// Reads a clock: its number, and where the time goes.
    Clock(usize, &'a mut TimeSpec),
    /// Looks for a while ([`crate::idle_poll`]) at words, given by address and value, and at the
    /// event queue of a descriptor. The answer is 1 when a word has changed or an event is there.
    /// Asked only [beside an idle processor](beside_idle_processor).
    Look(&'a [[usize; 2]], Option<usize>),
}

type System = Box<dyn FnMut(Request<'_>) -> Result<usize>>;

std::thread_local! {
    static SYSTEM: RefCell<Option<System>> = const { RefCell::new(None) };
    static IS_REDOX: Cell<bool> = const { Cell::new(false) };
    static LOOKS: Cell<bool> = const { Cell::new(false) };
}

/// Runs `test` while `system` answers what this thread asks of the system.
pub fn play<T>(
    system: impl FnMut(Request<'_>) -> Result<usize> + 'static,
    test: impl FnOnce() -> T,
) -> T {
    SYSTEM.with_borrow_mut(|slot| *slot = Some(Box::new(system)));
    let result = test();
    SYSTEM.with_borrow_mut(|slot| *slot = None);
    result
}

/// Runs `test` as on Redox's kernel, where it makes a difference ([`crate::kernel`]).
pub fn on_redox<T>(test: impl FnOnce() -> T) -> T {
    IS_REDOX.set(true);
    let result = test();
    IS_REDOX.set(false);
    result
}

/// Runs `test` as on a kernel that looks at words while its processor has nothing else to do.
pub fn beside_idle_processor<T>(test: impl FnOnce() -> T) -> T {
    LOOKS.set(true);
    let result = test();
    LOOKS.set(false);
    result
}

/// Whether the kernel looks at words.
pub(crate) fn can_look() -> bool {
    LOOKS.get()
}

/// Asks the played system to look at words.
pub(crate) fn look(words: &[[usize; 2]], queue: Option<usize>) -> Result<usize> {
    Error::demux(ask(Request::Look(words, queue)))
}

/// Whether the kernel ends requests whose caller or daemon has died.
pub fn ends_abandoned_requests() -> bool {
    !IS_REDOX.get()
}

/// The played system's answer in the library's encoding.
fn ask(request: Request<'_>) -> usize {
    let answer = SYSTEM.with_borrow_mut(|system| match system {
        Some(system) => system(request),
        None => Err(Error::new(ENOSYS)),
    });
    Error::mux(answer)
}

/// # Safety
/// As for a slice, unless `length` is 0.
unsafe fn bytes<'a>(start: *mut u8, length: usize) -> &'a mut [u8] {
    if length == 0 {
        return &mut [];
    }
    // SAFETY: the caller vouches for it.
    unsafe { core::slice::from_raw_parts_mut(start, length) }
}

// SAFETY: here and below: the name belongs to the Redox system library, which does not exist here.
#[unsafe(no_mangle)]
unsafe extern "C" fn redox_open_v1(path: *const u8, length: usize, _: u32, _: u16) -> usize {
    // SAFETY: callers pass a live string.
    let path = unsafe { bytes(path.cast_mut(), length) };
    ask(Request::Open(core::str::from_utf8(path).unwrap_or("")))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn redox_dup_v1(fd: usize, name: *const u8, length: usize) -> usize {
    // SAFETY: callers pass a live slice.
    ask(Request::Dup(fd, unsafe { bytes(name.cast_mut(), length) }))
}

#[unsafe(no_mangle)]
extern "C" fn redox_close_v1(fd: usize) -> usize {
    ask(Request::Close(fd))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn redox_read_v1(fd: usize, to: *mut u8, length: usize) -> usize {
    // SAFETY: callers pass a live slice.
    ask(Request::Read(fd, unsafe { bytes(to, length) }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn redox_write_v1(fd: usize, from: *const u8, length: usize) -> usize {
    // SAFETY: tests pass live memory only.
    ask(Request::Write(fd, unsafe {
        bytes(from.cast_mut(), length)
    }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn redox_sys_call_v0(
    fd: usize,
    payload: *mut u8,
    length: usize,
    _flags: usize,
    metadata: *const u64,
    words: usize,
) -> usize {
    // SAFETY: tests pass live memory only.
    let payload = unsafe { bytes(payload, length) };
    // SAFETY: callers pass a live slice of words.
    let metadata = unsafe { core::slice::from_raw_parts(metadata, words) };
    ask(Request::Call(fd, payload, metadata))
}

/// No test asks about several descriptors at once.
#[unsafe(no_mangle)]
unsafe extern "C" fn redox_sys_call_multiple_v0(
    _fds: *const usize,
    _count: usize,
    _payload: *mut u8,
    _length: usize,
    _flags: usize,
    _metadata: *const u64,
    _words: usize,
) -> usize {
    Error::mux(Err(Error::new(ENOSYS)))
}

#[unsafe(no_mangle)]
extern "C" fn redox_mmap_v1(
    address: *mut (),
    bytes: usize,
    protection: u32,
    flags: u32,
    fd: usize,
    offset: u64,
) -> usize {
    ask(Request::Map {
        address: address as usize,
        bytes,
        protection,
        flags,
        fd,
        offset,
    })
}

#[unsafe(no_mangle)]
extern "C" fn redox_munmap_v1(address: *mut (), bytes: usize) -> usize {
    ask(Request::Unmap(address as usize, bytes))
}

#[unsafe(no_mangle)]
extern "C" fn redox_fcntl_v0(fd: usize, command: usize, argument: usize) -> usize {
    ask(Request::Control(fd, command, argument))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn redox_clock_gettime_v1(clock: usize, time: *mut TimeSpec) -> usize {
    // SAFETY: callers pass memory for a time, which may hold nothing yet: zero is a time.
    let time = unsafe {
        time.write_bytes(0, 1);
        &mut *time
    };
    ask(Request::Clock(clock, time))
}

/// The descriptor of the thread, in a played system.
pub const THREAD: usize = 1_000_000;

#[unsafe(no_mangle)]
extern "C" fn redox_cur_thrfd_v0() -> usize {
    THREAD
}

macro_rules! refuse {
    ($($name:ident($($argument:ty),*);)*) => {
        $(
            // SAFETY: as above; the function touches none of its arguments.
            #[unsafe(no_mangle)]
            extern "C" fn $name($(_: $argument),*) -> usize {
                Error::mux(Err(Error::new(ENOSYS)))
            }
        )*
    };
}

refuse! {
    redox_fstatvfs_v1(usize, *mut u8);
    redox_fstat_v1(usize, *mut u8);
    redox_getdents_v0(usize, *mut u8, usize, u64);
    redox_setrens_v1(usize, usize);
    redox_get_ns_v0();
    redox_register_scheme_to_ns_v0(usize, *const u8, usize, usize);
    redox_strerror_v1(*mut u8, *mut usize, u32);
    redox_get_euid_v1();
    redox_futex_wait_v0(*mut u32, u32, *const ());
    redox_futex_wake_v0(*mut u32, u32);
}

/// Page-aligned zeroed memory for a played `mmap`; never freed.
///
/// # Errors
/// `EOVERFLOW` for absurd sizes and none, `ENOMEM`.
pub fn pages(bytes: usize) -> Result<&'static [AtomicU8]> {
    let layout = Layout::from_size_align(bytes, PAGE).ok();
    let layout = layout.filter(|layout| layout.size() > 0);
    let layout = layout.ok_or(Error::new(EOVERFLOW))?;
    // SAFETY: the size is not 0.
    let start = unsafe { std::alloc::alloc_zeroed(layout) };
    if start.is_null() {
        return Err(Error::new(ENOMEM));
    }
    // SAFETY: fresh memory of this size that is never freed; zero is a value.
    Ok(unsafe { core::slice::from_raw_parts(start.cast(), bytes) })
}
