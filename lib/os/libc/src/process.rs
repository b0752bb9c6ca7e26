//! Start and end of programs, ids, and what the system tells about itself.

use alloc::ffi::CString;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::ffi::{CStr, c_char, c_int, c_uint};

use runtime::process as system;
use runtime::{signals, state};
use syscall::error::{EINVAL, ENAMETOOLONG, ENOENT};

use crate::sync::Shared;
use crate::{errno, masks, segments, stream, strings};

type Handler = extern "C" fn();

pub static AT_EXIT: Shared<Vec<Handler>> = Shared::new(Vec::new());

unsafe extern "C" {
    /// Called when the process is about to end; in `libsocket`.
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
    stream::give_back_input();
    end(status)
}

/// Ends the program at once, except that its sockets send what they still have to.
fn end(status: c_int) -> ! {
    segments::leave();
    skiff_socket_exit();
    system::exit(status)
}

/// The functions that `quick_exit` calls, last one first.
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

/// Ends the process as a signal would.
pub fn end_by_signal(number: c_int) -> ! {
    signals::give_up();
    // It ends the process even if the program ignores it, as `abort` demands.
    if let (Ok(former), Some(bit)) = (signals::choice(), masks::bit(number))
        && former.ignored & bit != 0
    {
        let ignored = former.ignored & !bit;
        let _ = signals::choose(signals::Choice { caught: 0, ignored });
    }
    let _ = system::kill(system::id(), number as u32);
    // Programs that run without the process manager cannot kill.
    system::exit(128 + number)
}

/// SIGABRT.
pub const ABORT: c_int = 6;

/// Ends the process with SIGABRT.
pub fn end_abnormally() -> ! {
    end_by_signal(ABORT)
}

/// Called by a function with a stack protector that has found its stack overwritten.
#[unsafe(no_mangle)]
extern "C" fn __stack_chk_fail() -> ! {
    runtime::io::emergency("*** stack smashing detected ***: terminated\n");
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
pub extern "C" fn getpid() -> c_int {
    system::id() as c_int
}

#[unsafe(no_mangle)]
extern "C" fn getppid() -> c_int {
    system::own_meta().ppid as c_int
}

#[unsafe(no_mangle)]
pub extern "C" fn getuid() -> c_uint {
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

/// Sets the real, effective and saved id, so that root can give up its rights for good.
#[unsafe(no_mangle)]
extern "C" fn setuid(user: c_uint) -> c_int {
    errno::done(system::set_ids(state::proc_fd(), Some(user), None))
}

#[unsafe(no_mangle)]
extern "C" fn setgid(group: c_uint) -> c_int {
    errno::done(system::set_ids(state::proc_fd(), None, Some(group)))
}

/// Sets the effective id alone, so that a program can take its rights back.
#[unsafe(no_mangle)]
extern "C" fn seteuid(user: c_uint) -> c_int {
    errno::done(system::set_effective_ids(Some(user), None))
}

/// As `seteuid`, for the group.
#[unsafe(no_mangle)]
extern "C" fn setegid(group: c_uint) -> c_int {
    errno::done(system::set_effective_ids(None, Some(group)))
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

/// The name of the machine if its administrator has given it none. All such nodes have the same
/// name; SCIF's node number tells them apart.
const HOST_NAME: &str = "skiff";

/// The text of a configuration file: of that name in `/etc`, or else in the `/etc` of the image.
/// Empty if there is none or it cannot be read. Bytes that are not UTF-8 are replaced.
pub fn configuration(name: &str) -> String {
    let read = |at: &str| runtime::fs::read(&format!("{at}/etc/{name}"));
    let bytes = read("").or_else(|error| match error.errno {
        ENOENT => read("/scheme/initfs"),
        _ => Err(error),
    });
    String::from_utf8_lossy(&bytes.unwrap_or_default()).into_owned()
}

/// The name of the machine: the first line of `/etc/hostname` if that can be a name.
pub fn host_name() -> String {
    let text = configuration("hostname");
    patterns::machine_name::in_file(&text)
        .unwrap_or(HOST_NAME)
        .into()
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

/// Stores a name with its zero byte, or as many of these bytes as fit (`ENAMETOOLONG`).
///
/// # Safety
/// `buffer` has room for `size` bytes.
unsafe fn store_name(name: &CStr, buffer: *mut c_char, size: usize) -> c_int {
    let name = name.to_bytes_with_nul();
    let count = size.min(name.len());
    // SAFETY: the caller's buffer is long enough.
    unsafe {
        buffer
            .cast::<u8>()
            .copy_from_nonoverlapping(name.as_ptr(), count)
    };
    match count < name.len() {
        true => errno::fail(ENAMETOOLONG),
        false => 0,
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn gethostname(buffer: *mut c_char, size: usize) -> c_int {
    let name = CString::new(host_name()).unwrap_or_default();
    // SAFETY: the caller's buffer.
    unsafe { store_name(&name, buffer, size) }
}

/// No node belongs to a domain, which Linux reports as `(none)`.
#[unsafe(no_mangle)]
unsafe extern "C" fn getdomainname(buffer: *mut c_char, size: usize) -> c_int {
    const NONE: &CStr = c"(none)";
    if size < NONE.count_bytes() + 1 {
        return errno::fail(EINVAL);
    }
    // SAFETY: the caller's buffer.
    unsafe { store_name(NONE, buffer, size) }
}
