//! `spawn.h`, and `exec` of `unistd.h`: programs that replace others or run beside them.

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;
use core::ffi::{VaList, c_char, c_int, c_short, c_uint, c_void};

use runtime::process::{Command, Stdio};
use runtime::{Error, Result, fd, thread};
use syscall::error::{EBADF, EFAULT, EINVAL, EIO, ENOENT, EOPNOTSUPP};

use crate::{
    arrivals, descriptor, environment, errno, files, given, linux_names, pthread, segments,
    slashes, stream, strings,
};

unsafe extern "C" {
    /// Calls a function that replaces the process by another program, or returns; in `libsocket`.
    fn skiff_socket_exec(replace: unsafe extern "C" fn(*mut c_void), argument: *mut c_void);
}

/// A change that `posix_spawn` makes to the new program's descriptors.
enum Action {
    Duplicate {
        from: c_int,
        to: c_int,
    },
    Close {
        number: c_int,
    },
    Open {
        number: c_int,
        path: String,
        flags: c_int,
        mode: c_uint,
    },
}

/// `posix_spawn_file_actions_t`: a pointer to the list of actions.
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
    if from < 0 || to < 0 {
        return EBADF;
    }
    // SAFETY: initialised before.
    unsafe { (*(*actions).list).push(Action::Duplicate { from, to }) };
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn posix_spawn_file_actions_addclose(
    actions: *mut Actions,
    number: c_int,
) -> c_int {
    if number < 0 {
        return EBADF;
    }
    // SAFETY: initialised before.
    unsafe { (*(*actions).list).push(Action::Close { number }) };
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn posix_spawn_file_actions_addopen(
    actions: *mut Actions,
    number: c_int,
    path: *const c_char,
    flags: c_int,
    mode: c_uint,
) -> c_int {
    if number < 0 {
        return EBADF;
    }
    // SAFETY: the caller's string.
    let path = match unsafe { files::path_of(path) } {
        Ok(path) => String::from(path),
        Err(error) => return error.errno,
    };
    let action = Action::Open {
        number,
        path,
        flags,
        mode,
    };
    // SAFETY: initialised before.
    unsafe { (*(*actions).list).push(action) };
    0
}

/// `posix_spawnattr_t`: flags, and the values for them.
#[derive(Clone, Copy, Default)]
#[repr(C)]
struct Attributes {
    flags: c_short,
    group: c_int,
    defaults: u64,
    mask: u64,
}

/// The flags that are known. Three have no effect: no program has other ids than its parent or
/// blocks signals at first, and each child has memory of its own from the start.
const FLAGS: c_short = RESET_IDS | SET_GROUP | SET_DEFAULTS | SET_MASK | USE_VFORK;
const RESET_IDS: c_short = 0x01;
const SET_GROUP: c_short = 0x02;
const SET_DEFAULTS: c_short = 0x04;
const SET_MASK: c_short = 0x08;
const USE_VFORK: c_short = 0x40;

#[unsafe(no_mangle)]
unsafe extern "C" fn posix_spawnattr_init(attributes: *mut Attributes) -> c_int {
    // SAFETY: the caller's place for the structure.
    unsafe { attributes.write(Attributes::default()) };
    0
}

#[unsafe(no_mangle)]
extern "C" fn posix_spawnattr_destroy(_attributes: *mut Attributes) -> c_int {
    0
}

macro_rules! attributes {
    ($($set:ident $get:ident $field:ident: $type:ty = $by:ident;)*) => { $(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $set(
            attributes: *mut Attributes,
            value: attributes!($by $type),
        ) -> c_int {
            // SAFETY: initialised before; a set of signals is the caller's.
            unsafe { (*attributes).$field = attributes!(take $by value) };
            0
        }

        #[unsafe(no_mangle)]
        unsafe extern "C" fn $get(attributes: *const Attributes, place: *mut $type) -> c_int {
            // SAFETY: initialised before; the caller's place.
            unsafe { place.write((*attributes).$field) };
            0
        }
    )* };
    (value $type:ty) => { $type };
    (pointer $type:ty) => { *const $type };
    (take value $value:ident) => { $value };
    (take pointer $value:ident) => { *$value };
}

attributes! {
    posix_spawnattr_setflags posix_spawnattr_getflags flags: c_short = value;
    posix_spawnattr_setpgroup posix_spawnattr_getpgroup group: c_int = value;
    posix_spawnattr_setsigdefault posix_spawnattr_getsigdefault defaults: u64 = pointer;
    posix_spawnattr_setsigmask posix_spawnattr_getsigmask mask: u64 = pointer;
}

/// The strings of a vector that ends with a null pointer.
///
/// # Safety
/// The vector ends so, or is null.
unsafe fn texts(vector: *const *mut c_char) -> Vec<Vec<u8>> {
    let mut texts = Vec::new();
    let mut next = vector;
    // SAFETY: the caller's promise.
    unsafe {
        while !next.is_null() && !(*next).is_null() {
            texts.push(strings::bytes(*next).to_vec());
            next = next.add(1);
        }
    }
    texts
}

/// Makes a command with these arguments and variables, and the descriptors that C's rules pass on.
pub fn command(program: &str, arguments: Vec<Vec<u8>>, variables: Vec<Vec<u8>>) -> Command {
    command_with(program, arguments, variables, Numbers::inherited())
}

/// Calls `start` up to 64 times, as long as it fails with `EBADF`: another thread may have closed
/// a descriptor since `start` listed them.
///
/// # Errors
/// That of the last call of `start`.
pub fn retried<T>(mut start: impl FnMut() -> Result<T>) -> Result<T> {
    const TRIES: usize = 64;
    for _ in 1..TRIES {
        match start() {
            Err(error) if error.errno == EBADF => {}
            result => return result,
        }
    }
    start()
}

/// Makes a command by which the shell runs `text`.
pub fn shell(text: &[u8]) -> Command {
    let arguments = [b"sh".as_slice(), b"-c", text].map(<[u8]>::to_vec);
    command("sh", arguments.into(), environment::variables())
}

fn command_with(
    program: &str,
    arguments: Vec<Vec<u8>>,
    variables: Vec<Vec<u8>>,
    numbers: Numbers,
) -> Command {
    let mut command = Command::new(&linux_names::here(program));
    command.words(arguments, variables);
    let stream = |wanted| numbers.source(wanted).map_or(Stdio::Closed, Stdio::Fd);
    command.stdin(stream(0)).stdout(stream(1)).stderr(stream(2));
    for (number, source) in numbers.pairs.into_iter().filter(|(number, _)| *number > 2) {
        command.fd(number, source);
    }
    command
}

/// A file that was opened for a program to be started.
struct Opened(c_int);

impl Drop for Opened {
    fn drop(&mut self) {
        // Opened by `act`. Closing also ends the record that the number is C's.
        let _ = descriptor::close(self.0);
    }
}

/// The descriptors of a program to be started: pairs of the number there and the number here.
struct Numbers {
    pairs: Vec<(usize, usize)>,
    /// The numbers that actions have closed. A descriptor that only `exec` closes can still be
    /// duplicated.
    closed: BTreeSet<usize>,
}

impl Numbers {
    /// The descriptors that `exec` does not close.
    fn inherited() -> Numbers {
        let numbers = given::inherited().into_iter();
        Numbers {
            pairs: numbers.map(|number| (number, number)).collect(),
            closed: BTreeSet::new(),
        }
    }

    fn source(&self, wanted: usize) -> Option<usize> {
        let found = self.pairs.iter().find(|(number, _)| *number == wanted);
        found.map(|(_, source)| *source)
    }

    fn set(&mut self, number: usize, source: usize) {
        self.close(number);
        self.closed.remove(&number);
        self.pairs.push((number, source));
    }

    fn close(&mut self, closed: usize) {
        self.pairs.retain(|(number, _)| *number != closed);
        self.closed.insert(closed);
    }

    /// Does the actions in their order. Returns the files opened for them, which have to stay open
    /// until the program has started.
    fn act(&mut self, actions: &[Action]) -> Result<Vec<Opened>> {
        let mut opened: Vec<Opened> = Vec::new();
        for action in actions {
            match action {
                Action::Duplicate { from, to } => {
                    let (from, to) = (*from as usize, *to as usize);
                    let own = self.source(from);
                    // Files that were opened for the actions have their numbers here only.
                    let is_opened = || opened.iter().any(|file| file.0 as usize == from);
                    if self.closed.contains(&from) || own.is_none() && is_opened() {
                        return Err(Error::new(EBADF));
                    }
                    let source = own.unwrap_or(from);
                    fd::fcntl(source, syscall::F_GETFD, 0)?;
                    self.set(to, source);
                }
                Action::Close { number } => self.close(*number as usize),
                Action::Open {
                    number,
                    path,
                    flags,
                    mode,
                } => {
                    // The file is for this program only, not for one that another thread starts.
                    let flags = *flags | libredox::flag::O_CLOEXEC;
                    let file = files::open_path(path, flags, *mode)?;
                    opened.push(Opened(file));
                    self.set(*number as usize, file as usize);
                }
            }
        }
        Ok(opened)
    }
}

/// The directories in which a name without a slash is looked for: the program's present `PATH`,
/// with the names here in place of Linux's.
fn search_path() -> String {
    const USUAL: &str = "/scheme/initfs/bin";
    let Some(path) = environment::find(b"PATH") else {
        return String::from(USUAL);
    };
    // SAFETY: a variable's value is a string.
    let path = String::from_utf8_lossy(unsafe { strings::bytes(path) });
    let directories: Vec<_> = path.split(':').map(linux_names::here).collect();
    directories.join(":")
}

/// Starts a program. Fails with `ENOTSUP` for flags other than [`FLAGS`].
#[unsafe(no_mangle)]
unsafe extern "C" fn posix_spawnp(
    process: *mut c_int,
    program: *const c_char,
    actions: *const Actions,
    attributes: *const Attributes,
    arguments: *const *mut c_char,
    variables: *const *mut c_char,
) -> c_int {
    if program.is_null() {
        return EINVAL;
    }
    // SAFETY: the caller's string, vectors and initialised structures.
    let (program, arguments, variables, actions, attributes) = unsafe {
        let variables = match variables.is_null() {
            true => environment::variables(),
            false => texts(variables),
        };
        let actions = if actions.is_null() {
            &[]
        } else {
            (*(*actions).list).as_slice()
        };
        let attributes = attributes.as_ref().copied().unwrap_or_default();
        let program = String::from_utf8_lossy(strings::bytes(program));
        (program, texts(arguments), variables, actions, attributes)
    };
    if attributes.flags & !FLAGS != 0 {
        return EOPNOTSUPP;
    }
    if let Err(error) = slashes::can_be_run(&program) {
        return error.errno;
    }
    let has = |flag: c_short| attributes.flags & flag != 0;
    let Ok(group) = u32::try_from(attributes.group) else {
        return EINVAL;
    };
    stream::flush_idle();
    let spawned = retried(|| {
        let mut numbers = Numbers::inherited();
        // An error of the actions is final, so it ends the retries.
        let _opened = match numbers.act(actions) {
            Ok(opened) => opened,
            Err(error) => return Ok(Err(error)),
        };
        let mut command = command_with(&program, arguments.clone(), variables.clone(), numbers);
        command.search_path(&search_path());
        if has(SET_GROUP) {
            command.group(group);
        }
        if has(SET_DEFAULTS) {
            command.usual_signals(attributes.defaults);
        }
        command.spawn().map(Ok)
    });
    match spawned.and_then(|spawned| spawned) {
        Ok(child) => {
            if !process.is_null() {
                // SAFETY: the caller's place for a number.
                unsafe { *process = child.pid() as c_int };
            }
            0
        }
        Err(error) => error.errno,
    }
}

/// As `posix_spawnp`; the program must be given by a path.
#[unsafe(no_mangle)]
unsafe extern "C" fn posix_spawn(
    process: *mut c_int,
    program: *const c_char,
    actions: *const Actions,
    attributes: *const Attributes,
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

/// Whether the name contains a slash, so that it is not searched for. No other name is a path
/// here, as `/` holds no file.
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
        return errno::fail(EFAULT);
    }
    for _ in 0..TRIES {
        // SAFETY: the same contract.
        let error = unsafe { replace_once(program, arguments, variables) };
        if error != EBADF {
            return errno::fail(error);
        }
        // Another thread has closed a descriptor that was to be passed on.
        thread::yield_now();
    }
    errno::fail(EBADF)
}

/// How often a program is begun again whose descriptors change meanwhile.
const TRIES: usize = 100;

/// Replaces the program. Returns the error number if that fails.
unsafe fn replace_once(
    program: *const c_char,
    arguments: *const *mut c_char,
    variables: Option<*const *mut c_char>,
) -> c_int {
    // SAFETY: the caller's string and vectors.
    let command = unsafe {
        let program = String::from_utf8_lossy(strings::bytes(program));
        if let Err(error) = slashes::can_be_run(&program) {
            return error.errno;
        }
        let variables = match variables {
            Some(vector) => texts(vector),
            None => environment::variables(),
        };
        let mut command = command(&program, texts(arguments), variables);
        command.search_path(&search_path());
        command
    };
    // What is buffered in streams is lost, as POSIX says: after a `fork` it is the parent's, which
    // writes it itself.
    let mut exec = Exec {
        command,
        error: None,
    };
    // SAFETY: the function takes the structure, which lives across the call.
    unsafe { skiff_socket_exec(exec_command, (&raw mut exec).cast()) };
    exec.error.map_or(EIO, |error| error.errno)
}

/// The program to replace the process, and the error if that fails.
struct Exec {
    command: Command,
    error: Option<Error>,
}

unsafe extern "C" fn exec_command(exec: *mut c_void) {
    // SAFETY: the structure of `replace`.
    let exec = unsafe { &mut *exec.cast::<Exec>() };
    let caught = arrivals::leave();
    let attached = segments::leave();
    exec.error = Some(match pthread::handle_of(pthread::own()) {
        Ok(thread) => exec.command.exec_in(thread),
        Err(error) => error,
    });
    segments::resume(attached);
    arrivals::resume(caught);
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

#[unsafe(no_mangle)]
unsafe extern "C" fn execvpe(
    program: *const c_char,
    arguments: *const *mut c_char,
    variables: *const *mut c_char,
) -> c_int {
    // SAFETY: the same contract.
    unsafe { replace(program, arguments, Some(variables)) }
}

/// The arguments of `execl` and its kin as a vector, including the null pointer at its end.
///
/// # Safety
/// `list` has pointers to strings up to a null pointer.
unsafe fn vector(first: *const c_char, list: &mut VaList<'_>) -> Vec<*mut c_char> {
    let mut vector = Vec::from([first.cast_mut()]);
    while vector.last().is_some_and(|last| !last.is_null()) {
        // SAFETY: the caller's promise.
        vector.push(unsafe { list.arg::<*mut c_char>() });
    }
    vector
}

#[unsafe(no_mangle)]
unsafe extern "C" fn execl(program: *const c_char, first: *const c_char, mut list: ...) -> c_int {
    // SAFETY: the same contract.
    unsafe { execv(program, vector(first, &mut list).as_ptr()) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn execlp(program: *const c_char, first: *const c_char, mut list: ...) -> c_int {
    // SAFETY: the same contract.
    unsafe { execvp(program, vector(first, &mut list).as_ptr()) }
}

/// The variables follow the null pointer that ends the arguments.
#[unsafe(no_mangle)]
unsafe extern "C" fn execle(program: *const c_char, first: *const c_char, mut list: ...) -> c_int {
    // SAFETY: the same contract.
    unsafe {
        let arguments = vector(first, &mut list);
        let variables = list.arg::<*const *mut c_char>();
        execve(program, arguments.as_ptr(), variables)
    }
}
