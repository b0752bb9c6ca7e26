//! Ends and starts of programs, ids, and what the system tells about itself.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::ffi::{c_char, c_int, c_long, c_uint};

use runtime::process::{self as system, Command, Stdio};
use runtime::{Error, Result, state};
use syscall::error::{EINVAL, ENOENT};

use crate::sync::Shared;
use crate::{descriptor, environment, errno, signal, stream, strings};

type Handler = extern "C" fn();

static AT_EXIT: Shared<Vec<Handler>> = Shared::new(Vec::new());

unsafe extern "C" {
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
    system::exit(status)
}

#[unsafe(no_mangle)]
extern "C" fn exit(status: c_int) -> ! {
    leave(status)
}

#[unsafe(no_mangle)]
extern "C" fn _exit(status: c_int) -> ! {
    system::exit(status)
}

#[unsafe(no_mangle)]
extern "C" fn _Exit(status: c_int) -> ! {
    system::exit(status)
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

/// What `assert` calls.
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
    errno::done(send())
}

#[unsafe(no_mangle)]
unsafe extern "C" fn waitpid(process: c_int, status: *mut c_int, options: c_int) -> c_int {
    const WNOHANG: c_int = 1;
    // -1 and 0 mean any child: process groups are not kept.
    let process = u32::try_from(process).unwrap_or(0);
    match system::wait_pid(process, options & WNOHANG != 0) {
        Ok(Some((process, end))) => {
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

/// What `posix_spawn` does to the new program's descriptors.
enum Action {
    Duplicate { from: c_int, to: c_int },
    Close { number: c_int },
}

/// `posix_spawn_file_actions_t`: a pointer to the actions, null when there are none.
#[repr(C)]
struct Actions {
    list: *mut Vec<Action>,
}

#[unsafe(no_mangle)]
unsafe extern "C" fn posix_spawn_file_actions_init(actions: *mut Actions) -> c_int {
    let list = Box::into_raw(Box::default());
    // SAFETY: the caller's place for the structure.
    unsafe { actions.write(Actions { list }) };
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn posix_spawn_file_actions_destroy(actions: *mut Actions) -> c_int {
    // SAFETY: initialised by the function above and given up.
    drop(unsafe { Box::from_raw((*actions).list) });
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn posix_spawn_file_actions_adddup2(
    actions: *mut Actions,
    from: c_int,
    to: c_int,
) -> c_int {
    // SAFETY: initialised before.
    unsafe { (*(*actions).list).push(Action::Duplicate { from, to }) };
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn posix_spawn_file_actions_addclose(
    actions: *mut Actions,
    number: c_int,
) -> c_int {
    // SAFETY: initialised before.
    unsafe { (*(*actions).list).push(Action::Close { number }) };
    0
}

/// The strings of a vector that ends with a null pointer.
///
/// # Safety
/// It is such a vector, or null.
unsafe fn texts(vector: *const *mut c_char) -> Vec<String> {
    let mut texts = Vec::new();
    let mut next = vector;
    // SAFETY: the caller's promise.
    unsafe {
        while !next.is_null() && !(*next).is_null() {
            texts.push(String::from_utf8_lossy(strings::bytes(*next)).into_owned());
            next = next.add(1);
        }
    }
    texts
}

/// A command with the arguments, variables and descriptors of C's rules.
fn command(
    program: &str,
    arguments: &[String],
    variables: Vec<(String, String)>,
    actions: &[Action],
) -> Command {
    let mut command = Command::new(program);
    command.args(arguments.iter().skip(1));
    command.env_clear();
    for (name, value) in variables {
        command.env(name, value);
    }
    // Number in the new program and number here.
    let mut numbers: Vec<(usize, usize)> = descriptor::inherited()
        .into_iter()
        .map(|number| (number, number))
        .collect();
    for action in actions {
        match *action {
            Action::Duplicate { from, to } => {
                let (from, to) = (from as usize, to as usize);
                let source = numbers.iter().find(|(number, _)| *number == from);
                let source = source.map_or(from, |(_, source)| *source);
                numbers.retain(|(number, _)| *number != to);
                numbers.push((to, source));
            }
            Action::Close { number } => numbers.retain(|(known, _)| *known != number as usize),
        }
    }
    let stream = |wanted: usize| {
        let found = numbers.iter().find(|(number, _)| *number == wanted);
        found.map_or(Stdio::Closed, |(_, source)| Stdio::Fd(*source))
    };
    command.stdin(stream(0)).stdout(stream(1)).stderr(stream(2));
    for (number, source) in numbers.iter().filter(|(number, _)| *number > 2) {
        command.fd(*number, *source);
    }
    command
}

fn split(entries: Vec<String>) -> Vec<(String, String)> {
    let pair = |entry: &String| {
        let (name, value) = entry.split_once('=')?;
        Some((String::from(name), String::from(value)))
    };
    entries.iter().filter_map(pair).collect()
}

/// Starts a program. Attributes must be null: there is nothing they could set.
#[unsafe(no_mangle)]
unsafe extern "C" fn posix_spawnp(
    process: *mut c_int,
    program: *const c_char,
    actions: *const Actions,
    attributes: *const core::ffi::c_void,
    arguments: *const *mut c_char,
    variables: *const *mut c_char,
) -> c_int {
    if program.is_null() || !attributes.is_null() {
        return EINVAL;
    }
    // SAFETY: the caller's string, vectors and initialised actions.
    let (program, arguments, variables, actions) = unsafe {
        let variables = match variables.is_null() {
            true => environment::variables(),
            false => split(texts(variables)),
        };
        let actions = if actions.is_null() {
            &[]
        } else {
            (*(*actions).list).as_slice()
        };
        let program = String::from_utf8_lossy(strings::bytes(program));
        (program, texts(arguments), variables, actions)
    };
    stream::flush_all();
    let mut tries = 0;
    loop {
        let spawned = command(&program, &arguments, variables.clone(), actions).spawn();
        match spawned {
            Ok(child) => {
                if !process.is_null() {
                    // SAFETY: the caller's place for a number.
                    unsafe { *process = child.pid() as c_int };
                }
                return 0;
            }
            // Another thread may have closed a descriptor since they were listed.
            Err(error) if error.errno == syscall::EBADF && tries < 16 => tries += 1,
            Err(error) => return error.errno,
        }
    }
}

/// As `posix_spawnp`; the name must be a path.
#[unsafe(no_mangle)]
unsafe extern "C" fn posix_spawn(
    process: *mut c_int,
    program: *const c_char,
    actions: *const Actions,
    attributes: *const core::ffi::c_void,
    arguments: *const *mut c_char,
    variables: *const *mut c_char,
) -> c_int {
    // SAFETY: the same contract.
    unsafe {
        match is_path(program) {
            true => posix_spawnp(process, program, actions, attributes, arguments, variables),
            false => ENOENT,
        }
    }
}

/// Whether it is looked up as it stands; a name without a slash is not there, as `/` holds no file.
unsafe fn is_path(program: *const c_char) -> bool {
    // SAFETY: a string or null.
    !program.is_null() && unsafe { strings::bytes(program) }.contains(&b'/')
}

unsafe fn replace(
    program: *const c_char,
    arguments: *const *mut c_char,
    variables: Option<*const *mut c_char>,
) -> c_int {
    if program.is_null() {
        return errno::fail(syscall::EFAULT);
    }
    // SAFETY: the caller's string and vectors.
    let mut command = unsafe {
        let program = String::from_utf8_lossy(strings::bytes(program));
        let variables = match variables {
            Some(vector) => split(texts(vector)),
            None => environment::variables(),
        };
        command(&program, &texts(arguments), variables, &[])
    };
    stream::flush_all();
    errno::fail(command.exec().errno)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn execve(
    program: *const c_char,
    arguments: *const *mut c_char,
    variables: *const *mut c_char,
) -> c_int {
    // SAFETY: the same contract.
    unsafe {
        match is_path(program) {
            true => replace(program, arguments, Some(variables)),
            false => errno::fail(ENOENT),
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn execv(program: *const c_char, arguments: *const *mut c_char) -> c_int {
    // SAFETY: the same contract.
    unsafe {
        match is_path(program) {
            true => replace(program, arguments, None),
            false => errno::fail(ENOENT),
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn execvp(program: *const c_char, arguments: *const *mut c_char) -> c_int {
    // SAFETY: the same contract.
    unsafe { replace(program, arguments, None) }
}

/// Runs a command by the shell; with a null command says that there is one.
#[unsafe(no_mangle)]
unsafe extern "C" fn system(text: *const c_char) -> c_int {
    if text.is_null() {
        return 1;
    }
    // SAFETY: the caller's string.
    let text = String::from_utf8_lossy(unsafe { strings::bytes(text) }).into_owned();
    let arguments = [String::from("sh"), String::from("-c"), text];
    stream::flush_all();
    let run = || -> Result<c_int> {
        let variables = environment::variables();
        let mut child = command("sh", &arguments, variables, &[]).spawn()?;
        Ok(child.wait()?.into_raw())
    };
    errno::give(run())
}

/// Descriptors a process can have.
pub const OPEN_MAX: c_long = 65_536;

/// Numbers of `sysconf`, Linux's.
const SC_CLOCK: c_int = 2;
const SC_OPEN_MAX: c_int = 4;
const SC_PAGESIZE: c_int = 30;
const SC_IOV_MAX: c_int = 60;
const SC_NPROCESSORS_CONF: c_int = 83;
const SC_NPROCESSORS_ONLN: c_int = 84;

#[unsafe(no_mangle)]
extern "C" fn sysconf(name: c_int) -> c_long {
    match name {
        SC_OPEN_MAX => OPEN_MAX,
        SC_CLOCK => 1_000_000,
        SC_PAGESIZE => syscall::PAGE_SIZE as c_long,
        SC_IOV_MAX => 1024,
        // Those that the kernel could not start are in no list.
        SC_NPROCESSORS_CONF | SC_NPROCESSORS_ONLN => errno::give(processors()),
        _ => errno::fail(EINVAL),
    }
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
    fields: [[c_char; 65]; 5],
}

#[unsafe(no_mangle)]
unsafe extern "C" fn uname(place: *mut Names) -> c_int {
    let mut names = Names {
        fields: [[0; 65]; 5],
    };
    let texts = ["Redox", "skiff", "0.1", "0.1", "x86_64"];
    for (field, text) in names.fields.iter_mut().zip(texts) {
        for (to, from) in field.iter_mut().zip(text.bytes()) {
            *to = from as c_char;
        }
    }
    // SAFETY: the caller's place for the structure.
    unsafe { place.write(names) };
    0
}

/// Every node has the same name; SCIF's node number tells them apart.
#[unsafe(no_mangle)]
unsafe extern "C" fn gethostname(buffer: *mut c_char, size: usize) -> c_int {
    const NAME: &[u8] = b"skiff\0";
    if size < NAME.len() {
        return errno::fail(EINVAL);
    }
    // SAFETY: the caller's buffer is long enough.
    unsafe {
        buffer
            .cast::<u8>()
            .copy_from_nonoverlapping(NAME.as_ptr(), NAME.len())
    };
    0
}
