//! Ends and starts of programs, ids, and what the system tells about itself.

use alloc::ffi::CString;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::ffi::{CStr, c_char, c_int, c_long, c_uint};

use runtime::process as system;
use runtime::{Error, Result, state};
use syscall::error::{EINVAL, ENOENT};

use crate::sync::Shared;
use crate::{children, descriptor, errno, pthread, signal, spawn, stream, strings};

type Handler = extern "C" fn();

pub static AT_EXIT: Shared<Vec<Handler>> = Shared::new(Vec::new());

unsafe extern "C" {
    /// The process is about to end; in `libsocket`.
    safe fn skiff_socket_exit();
    static __fini_array_start: [Handler; 0];
    static __fini_array_end: [Handler; 0];
}

#[unsafe(no_mangle)]
pub extern "C" fn atexit(handler: Handler) -> c_int {
    AT_EXIT.with(|handlers| handlers.push(handler));
    0
}

/// Ends the program as `exit` does.
pub fn leave(status: c_int) -> ! {
    // A handler may add further ones.
    while let Some(handler) = AT_EXIT.with(Vec::pop) {
        handler();
    }
    let start = (&raw const __fini_array_start).cast::<Handler>();
    let mut next = (&raw const __fini_array_end).cast::<Handler>();
    while next > start {
        next = next.wrapping_sub(1);
        // SAFETY: the linker put an array of functions between the two symbols.
        unsafe { (*next)() };
    }
    stream::flush_all();
    end(status)
}

/// Ends the program at once, but for what its sockets still have to send.
fn end(status: c_int) -> ! {
    skiff_socket_exit();
    system::exit(status)
}

/// The functions that `quick_exit` calls.
pub static AT_QUICK_EXIT: Shared<Vec<Handler>> = Shared::new(Vec::new());

#[unsafe(no_mangle)]
extern "C" fn at_quick_exit(handler: Handler) -> c_int {
    AT_QUICK_EXIT.with(|handlers| handlers.push(handler));
    0
}

#[unsafe(no_mangle)]
extern "C" fn quick_exit(status: c_int) -> ! {
    while let Some(handler) = AT_QUICK_EXIT.with(Vec::pop) {
        handler();
    }
    end(status)
}

#[unsafe(no_mangle)]
extern "C" fn exit(status: c_int) -> ! {
    leave(status)
}

#[unsafe(no_mangle)]
extern "C" fn _exit(status: c_int) -> ! {
    end(status)
}

#[unsafe(no_mangle)]
extern "C" fn _Exit(status: c_int) -> ! {
    end(status)
}

/// Kills the process as a signal would.
pub fn end_by_signal(number: c_int) -> ! {
    let _ = system::kill(system::id(), number as u32);
    // Below the process manager no process can kill.
    system::exit(128 + number)
}

/// Ends the process with SIGABRT.
pub fn end_abnormally() -> ! {
    end_by_signal(signal::ABORT)
}

#[unsafe(no_mangle)]
extern "C" fn abort() -> ! {
    signal::deliver(signal::ABORT);
    end_abnormally()
}

/// The function that `assert` calls.
#[unsafe(no_mangle)]
unsafe extern "C" fn __assert_fail(
    expression: *const c_char,
    file: *const c_char,
    line: c_uint,
    function: *const c_char,
) -> ! {
    // SAFETY: the macro passes strings.
    let [expression, file, function] = [expression, file, function]
        .map(|text| String::from_utf8_lossy(unsafe { strings::bytes(text) }));
    stream::flush_all();
    runtime::eprintln!("{file}:{line}: {function}: Assertion `{expression}' failed.");
    end_abnormally()
}

#[unsafe(no_mangle)]
extern "C" fn getpid() -> c_int {
    system::id() as c_int
}

#[unsafe(no_mangle)]
extern "C" fn getppid() -> c_int {
    system::own_meta().ppid as c_int
}

#[unsafe(no_mangle)]
extern "C" fn getuid() -> c_uint {
    system::own_meta().ruid
}

#[unsafe(no_mangle)]
extern "C" fn geteuid() -> c_uint {
    system::own_meta().euid
}

#[unsafe(no_mangle)]
extern "C" fn getgid() -> c_uint {
    system::own_meta().rgid
}

#[unsafe(no_mangle)]
extern "C" fn getegid() -> c_uint {
    system::own_meta().egid
}

/// Sets real, effective and saved id: root's way to give up its rights for good.
#[unsafe(no_mangle)]
extern "C" fn setuid(user: c_uint) -> c_int {
    errno::done(system::set_ids(state::proc_fd(), Some(user), None))
}

#[unsafe(no_mangle)]
extern "C" fn setgid(group: c_uint) -> c_int {
    errno::done(system::set_ids(state::proc_fd(), None, Some(group)))
}

#[unsafe(no_mangle)]
extern "C" fn kill(process: c_int, number: c_int) -> c_int {
    let send = || {
        let process = u32::try_from(process).map_err(|_| Error::new(EINVAL))?;
        let number = u32::try_from(number).map_err(|_| Error::new(EINVAL))?;
        system::kill(process, number)
    };
    // The system has no handlers: to itself a program sends as `raise` does.
    match number != 0 && u32::try_from(process) == Ok(runtime::process::id()) {
        true => signal::raise(number),
        false => errno::done(send()),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn waitpid(process: c_int, status: *mut c_int, options: c_int) -> c_int {
    const WNOHANG: c_int = 1;
    // -1 and 0 mean any child: process groups are not kept.
    let process = u32::try_from(process).unwrap_or(0);
    match system::wait_pid(process, options & WNOHANG != 0) {
        Ok(Some((process, end))) => {
            children::ended(process);
            if !status.is_null() {
                // SAFETY: the caller's place for a number.
                unsafe { *status = end.into_raw() };
            }
            process as c_int
        }
        Ok(None) => 0,
        Err(error) => errno::fail(error.errno),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn wait(status: *mut c_int) -> c_int {
    // SAFETY: the same contract.
    unsafe { waitpid(-1, status, 0) }
}

/// Runs a command by the shell; with a null command says that there is one.
#[unsafe(no_mangle)]
unsafe extern "C" fn system(text: *const c_char) -> c_int {
    if text.is_null() {
        return 1;
    }
    // SAFETY: the caller's string.
    let text = unsafe { strings::bytes(text) };
    stream::flush_all();
    let child = spawn::retried(|| spawn::shell(text).spawn());
    errno::give(child.and_then(|mut child| Ok(child.wait()?.into_raw())))
}

/// Descriptors a process can have.
pub const OPEN_MAX: c_long = descriptor::MOST as c_long;

/// Numbers of `sysconf`, relibc's, and Linux's where relibc has none.
const SC_ARG_MAX: c_int = 0;
const SC_CHILD_MAX: c_int = 1;
const SC_CLOCK: c_int = 2;
const SC_NGROUPS_MAX: c_int = 3;
const SC_STREAM_MAX: c_int = 5;
const SC_TZNAME_MAX: c_int = 6;
const SC_JOB_CONTROL: c_int = 7;
const SC_SAVED_IDS: c_int = 8;
const SC_VERSION: c_int = 29;
const SC_LINE_MAX: c_int = 43;
const SC_THREADS: c_int = 67;
const SC_GETGR_SIZE: c_int = 69;
const SC_GETPW_SIZE: c_int = 70;
const SC_LOGIN_NAME_MAX: c_int = 71;
const SC_TTY_NAME_MAX: c_int = 72;
const SC_MONOTONIC_CLOCK: c_int = 149;
const SC_SYMLOOP_MAX: c_int = 173;
const SC_HOST_NAME_MAX: c_int = 180;
const SC_DCACHE_LINE: c_int = 190;
const SC_REALTIME_SIGNALS: c_int = 9;
const SC_PRIORITY_SCHEDULING: c_int = 10;
const SC_TIMERS: c_int = 11;
const SC_ASYNCHRONOUS_IO: c_int = 12;
const SC_FSYNC: c_int = 15;
const SC_MAPPED_FILES: c_int = 16;
const SC_MEMLOCK: c_int = 17;
const SC_MEMLOCK_RANGE: c_int = 18;
const SC_MEMORY_PROTECTION: c_int = 19;
const SC_MESSAGE_PASSING: c_int = 20;
const SC_SEMAPHORES: c_int = 21;
const SC_SHARED_MEMORY_OBJECTS: c_int = 22;
const SC_THREAD_SAFE_FUNCTIONS: c_int = 68;
const SC_THREAD_DESTRUCTOR_ITERATIONS: c_int = 73;
const SC_THREAD_KEYS_MAX: c_int = 74;
const SC_THREAD_STACK_MIN: c_int = 75;
const SC_THREAD_THREADS_MAX: c_int = 76;
const SC_THREAD_ATTR_STACKADDR: c_int = 77;
const SC_THREAD_ATTR_STACKSIZE: c_int = 78;
const SC_THREAD_PRIORITY_SCHEDULING: c_int = 79;
const SC_THREAD_PROCESS_SHARED: c_int = 82;
const SC_PHYS_PAGES: c_int = 85;
const SC_AVPHYS_PAGES: c_int = 86;
const SC_BARRIERS: c_int = 133;
const SC_READER_WRITER_LOCKS: c_int = 153;
const SC_SPIN_LOCKS: c_int = 154;
const SC_TIMEOUTS: c_int = 164;
const SC_OPEN_MAX: c_int = 4;
const SC_PAGESIZE: c_int = 30;
const SC_IOV_MAX: c_int = 60;
const SC_NPROCESSORS_CONF: c_int = 57;
const SC_NPROCESSORS_ONLN: c_int = 58;
const SC_CPUTIME: c_int = 138;
const SC_THREAD_CPUTIME: c_int = 139;
/// Year and month of the edition of POSIX that an option follows.
const POSIX: c_long = 200_809;

/// Ticks of a second in `times`.
pub const TICKS: c_long = 1_000_000;

#[unsafe(no_mangle)]
extern "C" fn sysconf(name: c_int) -> c_long {
    match name {
        SC_OPEN_MAX | SC_STREAM_MAX => OPEN_MAX,
        SC_CLOCK => TICKS,
        SC_PAGESIZE => syscall::PAGE_SIZE as c_long,
        SC_IOV_MAX => 1024,
        SC_TZNAME_MAX => 6,
        SC_LINE_MAX => 2048,
        SC_GETGR_SIZE | SC_GETPW_SIZE => 1024,
        SC_LOGIN_NAME_MAX => 256,
        SC_TTY_NAME_MAX => 32,
        SC_HOST_NAME_MAX => 64,
        SC_DCACHE_LINE => cache_line(),
        SC_VERSION
        | SC_THREADS
        | SC_MONOTONIC_CLOCK
        | SC_CPUTIME
        | SC_FSYNC
        | SC_MEMORY_PROTECTION
        | SC_THREAD_SAFE_FUNCTIONS
        | SC_THREAD_ATTR_STACKSIZE
        | SC_BARRIERS
        | SC_READER_WRITER_LOCKS
        | SC_SPIN_LOCKS
        | SC_TIMEOUTS => POSIX,
        SC_THREAD_DESTRUCTOR_ITERATIONS => pthread::DESTRUCTOR_ROUNDS as c_long,
        SC_THREAD_KEYS_MAX => pthread::KEYS as c_long,
        SC_THREAD_STACK_MIN => pthread::SMALLEST_STACK as c_long,
        SC_PHYS_PAGES => errno::give(memory().map(|(total, _)| total)),
        SC_AVPHYS_PAGES => errno::give(memory().map(|(_, free)| free)),
        SC_NGROUPS_MAX => 0,
        // Not there, or without a limit, which is no error.
        SC_THREAD_CPUTIME
        | SC_JOB_CONTROL
        | SC_SAVED_IDS
        | SC_ARG_MAX
        | SC_CHILD_MAX
        | SC_SYMLOOP_MAX
        | SC_REALTIME_SIGNALS
        | SC_PRIORITY_SCHEDULING
        | SC_TIMERS
        | SC_ASYNCHRONOUS_IO
        | SC_MAPPED_FILES
        | SC_MEMLOCK
        | SC_MEMLOCK_RANGE
        | SC_MESSAGE_PASSING
        | SC_SEMAPHORES
        | SC_SHARED_MEMORY_OBJECTS
        | SC_THREAD_THREADS_MAX
        | SC_THREAD_ATTR_STACKADDR
        | SC_THREAD_PRIORITY_SCHEDULING
        | SC_THREAD_PROCESS_SHARED => -1,
        // Those that the kernel could not start are in no list.
        SC_NPROCESSORS_CONF | SC_NPROCESSORS_ONLN => errno::give(processors()),
        _ => errno::fail(EINVAL),
    }
}

/// Pages of the machine's memory, and those that are free.
pub fn memory() -> Result<(c_long, c_long)> {
    let failed = |error: libredox::error::Error| Error::new(error.errno());
    let number = runtime::path::open("/scheme/memory", libredox::flag::O_CLOEXEC as usize)?;
    let found = libredox::call::fstatvfs(number).map_err(failed);
    runtime::fd::close(number)?;
    let found = found?;
    let pages = |blocks: u64| (blocks * found.f_bsize as u64 / syscall::PAGE_SIZE as u64) as c_long;
    Ok((pages(found.f_blocks as u64), pages(found.f_bavail as u64)))
}

/// Bytes of a line of the processor's cache for data: what CLFLUSH works on.
fn cache_line() -> c_long {
    let identity = core::arch::x86_64::__cpuid(1);
    c_long::from((identity.ebx >> 8) as u8) * 8
}

/// The processors that the kernel uses.
pub fn processors() -> Result<c_long> {
    let text = runtime::fs::read_to_string("/scheme/sys/cpu")?;
    processors_of(&text).ok_or(Error::new(EINVAL))
}

/// The number in the first line of the kernel's text about its processors.
fn processors_of(text: &str) -> Option<c_long> {
    let number = text.lines().next()?.strip_prefix("CPUs: ")?;
    number.parse().ok().filter(|&number| number > 0)
}

#[unsafe(no_mangle)]
extern "C" fn getpagesize() -> c_int {
    syscall::PAGE_SIZE as c_int
}

#[unsafe(no_mangle)]
extern "C" fn sched_yield() -> c_int {
    runtime::thread::yield_now();
    0
}

/// C's `struct utsname`.
#[repr(C)]
struct Names {
    fields: [[c_char; 65]; 6],
}

/// The name of the machine where its administrator has given it none. Every node has the same one;
/// SCIF's node number tells them apart.
const HOST_NAME: &str = "skiff";

/// The text of a file of an administrator's: of that name in `/etc`, or else among the files of the
/// image. Empty when there is none, or it cannot be read. What is no UTF-8 spoils only its words.
pub fn configuration(name: &str) -> String {
    let read = |at: &str| runtime::fs::read(&format!("{at}/etc/{name}"));
    let bytes = read("").or_else(|error| match error.errno {
        ENOENT => read("/scheme/initfs"),
        _ => Err(error),
    });
    String::from_utf8_lossy(&bytes.unwrap_or_default()).into_owned()
}

/// The name of the machine: the first line of `/etc/hostname`, if it is one of at most 64 bytes.
pub fn host_name() -> String {
    let text = configuration("hostname");
    let is_usual = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
    match text.lines().next().map(str::trim) {
        Some(name) if (1..=64).contains(&name.len()) && name.bytes().all(is_usual) => name.into(),
        _ => HOST_NAME.into(),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn uname(place: *mut Names) -> c_int {
    let mut names = Names {
        fields: [[0; 65]; 6],
    };
    let host_name = host_name();
    let texts = ["Redox", &host_name, "0.1", "0.1", "x86_64"];
    for (field, text) in names.fields.iter_mut().zip(texts) {
        for (to, from) in field.iter_mut().zip(text.bytes()) {
            *to = from as c_char;
        }
    }
    // SAFETY: the caller's place for the structure.
    unsafe { place.write(names) };
    0
}

/// Stores a name with its 0.
///
/// # Safety
/// `buffer` has room for `size` bytes.
unsafe fn store_name(name: &CStr, buffer: *mut c_char, size: usize) -> c_int {
    let name = name.to_bytes_with_nul();
    if size < name.len() {
        return errno::fail(EINVAL);
    }
    // SAFETY: the caller's buffer is long enough.
    unsafe {
        buffer
            .cast::<u8>()
            .copy_from_nonoverlapping(name.as_ptr(), name.len())
    };
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn gethostname(buffer: *mut c_char, size: usize) -> c_int {
    let name = CString::new(host_name()).unwrap_or_default();
    // SAFETY: the caller's buffer.
    unsafe { store_name(&name, buffer, size) }
}

/// No node belongs to a domain, which Linux says in these words.
#[unsafe(no_mangle)]
unsafe extern "C" fn getdomainname(buffer: *mut c_char, size: usize) -> c_int {
    // SAFETY: the caller's buffer.
    unsafe { store_name(c"(none)", buffer, size) }
}
